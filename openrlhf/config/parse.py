"""From a command line to a config.

    argv -> flags and values -> today's names -> checked, no contradiction -> YAML defaults -> tyro -> PPOConfig

tyro takes the last of two contradicting values, does not know old names, and stops at the first fault; so all faults
are looked for before it runs, and reported together. Nothing here imports torch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import tyro

from openrlhf.config.command_line import read_line
from openrlhf.config.errors import ConfigError
from openrlhf.config.idle import idle_flags
from openrlhf.config.ppo import PPOConfig
from openrlhf.config.schema import flatten, nest, values
from openrlhf.config.yaml_file import read_yaml

PROGRAM = "train_ppo_ray"


class PPOCommand(PPOConfig):
    """Reinforcement learning of a causal language model, with Ray, vLLM and DeepSpeed."""

    config: str | None = None
    """YAML file of defaults, with the same names; flags on the command line win."""
    dry_run: bool = False
    """Check everything, the inputs too, print the resolved config, and stop."""


@dataclass(frozen=True, slots=True)
class ParsedArgs:
    """What the command line says, before `resolve`. `explicit`: the flags that stand on the line itself."""

    config: PPOConfig
    dry_run: bool
    warnings: tuple[str, ...]
    explicit: frozenset[str]


def _tyro(arguments: list[str], default: PPOCommand) -> PPOCommand:
    return tyro.cli(PPOCommand, args=arguments, default=default, use_underscores=True, prog=PROGRAM)


def parse_ppo(argv: Sequence[str]) -> ParsedArgs:
    """Read the words after the program's name. ConfigError holds all problems; `--help` prints and exits.

    The config's `model_fields_set` holds what the YAML file and the line gave, and nothing else.
    """
    if {"-h", "--help"} & set(argv):
        _tyro(["--help"], PPOCommand())
    line = read_line(argv, PPOCommand, PROGRAM)
    settings, problems = line.settings, line.problems
    base = PPOConfig()
    if "config" in settings and settings["config"].words != ("None",):
        try:
            base = read_yaml(settings["config"].words[0], anew=True)
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    base_given = base.model_dump(exclude_unset=True)
    command = _tyro(line.argv(), PPOCommand.model_validate(base_given))
    read = values(command)
    explicit = frozenset(settings) - {"config", "dry_run"}
    explicit -= {path for path in idle_flags(command) if path in settings and settings[path].copy}
    config = PPOConfig.model_validate(nest(flatten(base_given) | {path: read[path] for path in explicit}))
    return ParsedArgs(config, command.dry_run, tuple(line.warnings), explicit)

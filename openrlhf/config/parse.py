"""From a command line to a config.

    argv -> flags and values -> today's names -> checked, no contradiction -> YAML defaults -> tyro -> PPOConfig

tyro takes the last of two contradicting values, does not know old names, and stops at the first fault; so all faults
are looked for before it runs, and reported together. Nothing here imports torch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import tyro

from openrlhf.config.check_words import brief, check_words
from openrlhf.config.errors import ConfigError
from openrlhf.config.legacy import RENAMED, translate
from openrlhf.config.names import nearest
from openrlhf.config.ppo import PPOConfig
from openrlhf.config.schema import Flag, flags, flatten, nest, values
from openrlhf.config.secret import SECRETS, without_login
from openrlhf.config.tokens import Given, split
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


@dataclass(frozen=True, slots=True)
class _Setting:
    """A flag's value as words: two for a pair, 'True' or 'False' for a boolean."""

    flag: Flag
    words: tuple[str, ...]
    typed: str

    def same_value(self, other: "_Setting") -> bool:
        if self.flag.kind not in ("int", "float") or "None" in (*self.words, *other.words):
            return self.words == other.words
        number = int if self.flag.kind == "int" else float  # floats hold whole numbers up to 2^53 only
        return list(map(number, self.words)) == list(map(number, other.words))

    def argv(self) -> list[str]:
        """The setting in tyro's notation."""
        if self.flag.kind == "bool":
            parent, dot, leaf = self.flag.path.rpartition(".")
            return [f"--{parent}{dot}{leaf if self.words == ('True',) else 'no-' + leaf}"]
        if len(self.words) == 1:
            return [f"--{self.flag.path}={self.words[0]}"]
        return [f"--{self.flag.path}", *self.words]


def _lookup(name: str, known: Mapping[str, Flag]) -> tuple[Flag | None, bool]:
    """(flag, negated) of a name; `train.no_x` is the negation of the boolean `train.x`."""
    if name in known:
        return known[name], False
    parent, dot, leaf = name.rpartition(".")
    positive = known.get(f"{parent}{dot}{leaf.removeprefix('no_')}")
    if leaf.startswith("no_") and positive is not None and positive.kind == "bool":
        return positive, True
    return None, False


def _unknown(entry: Given, known: Mapping[str, Flag]) -> str:
    names = nearest(entry.name, [*known, *RENAMED])
    today = list(dict.fromkeys(f"--{RENAMED.get(name, name)}" for name in names))
    return f"{entry.typed} is no flag of {PROGRAM}" + (f"; nearest: {', '.join(today)}" if today else "; see --help")


def _setting(entry: Given, known: Mapping[str, Flag]) -> _Setting | str:
    """The setting that an occurrence makes, or what is wrong with it."""
    flag, negated = _lookup(entry.name, known)
    if flag is None:
        return _unknown(entry, known)
    words = ("***",) if flag.path in SECRETS else entry.values
    shown = " ".join([entry.typed, *(repr(brief(without_login(word))) for word in words)])
    if flag.kind != "bool":
        fault = check_words(flag, entry.values)
        return f"{shown}: {fault}" if fault else _Setting(flag, entry.values, shown)
    if negated and entry.values:
        return f"{shown}: the no- form takes no value"
    truth = entry.truth()
    if truth is None:
        return f"{shown}: no truth value; give the flag alone, or True or False after it"
    return _Setting(flag, (str(truth and not negated),), shown)


def _gather(found: Sequence[Given], warnings: list[str], problems: list[str]) -> dict[str, _Setting]:
    """One setting per flag. Repeats of one value pass with a warning; different values are a problem."""
    settings: dict[str, _Setting] = {}
    known = flags(PPOCommand)
    for entry in found:
        setting = _setting(entry, known)
        if isinstance(setting, str):
            problems.append(setting)
            continue
        path = setting.flag.path
        earlier = settings.setdefault(path, setting)
        if earlier is setting:
            continue
        if earlier.same_value(setting):
            warnings.append(f"--{path} is given twice with the same value ({earlier.typed}, {setting.typed})")
        else:
            problems.append(f"--{path} is given twice with different values: {earlier.typed} and {setting.typed}")
    return settings


def _tyro(arguments: list[str], default: PPOCommand) -> PPOCommand:
    return tyro.cli(PPOCommand, args=arguments, default=default, use_underscores=True, prog=PROGRAM)


def parse_ppo(argv: Sequence[str]) -> ParsedArgs:
    """Read the words after the program's name. ConfigError holds all problems; `--help` prints and exits.

    The config's `model_fields_set` holds what the YAML file and the line gave, and nothing else.
    """
    if {"-h", "--help"} & set(argv):
        _tyro(["--help"], PPOCommand())
    found, stray = split(argv)
    problems = [f"{brief(without_login(word))!r} belongs to no flag; flags start with --" for word in stray]
    found, warnings, faults = translate(found)
    problems += faults
    settings = _gather(found, warnings, problems)
    base = PPOConfig()
    if "config" in settings and settings["config"].words != ("None",):
        try:
            base = read_yaml(settings["config"].words[0])
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    base_given = base.model_dump(exclude_unset=True)
    arguments = [word for setting in settings.values() for word in setting.argv()]
    command = _tyro(arguments, PPOCommand.model_validate(base_given))
    read = values(command)
    explicit = frozenset(settings) - {"config", "dry_run"}
    config = PPOConfig.model_validate(nest(flatten(base_given) | {path: read[path] for path in explicit}))
    return ParsedArgs(config, command.dry_run, tuple(warnings), explicit)

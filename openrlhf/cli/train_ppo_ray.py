"""Reinforcement learning of a causal language model.

    python3 -m openrlhf.cli.train_ppo_ray --actor.model_name_or_path M --data.prompt_dataset D --reward.remote_url R ...
    python3 -m openrlhf.cli.train_ppo_ray --config run.yaml --dry_run
    ray job submit -- python3 -m openrlhf.cli.train_ppo_ray ...

Exit codes: 0 the run finished, 1 it failed, 2 the command cannot run as given (one line on stderr per problem).
`--dry_run` also opens models' configs, tokenizer, datasets and reward source, and starts nothing.
torch, Ray, vLLM and DeepSpeed are imported only once the flags are known to be sound.
"""

import os
import sys
from collections.abc import Sequence

from openrlhf.cli.outcome import EXIT_REFUSED, ExceptionTypes, run_to_exit_code, tell
from openrlhf.config.errors import ConfigError
from openrlhf.config.parse import parse_ppo
from openrlhf.config.ppo import PPOConfig
from openrlhf.config.resolve import Resolution, resolve
from openrlhf.config.yaml_file import to_yaml
from openrlhf.imports import HeavyImports


def main(argv: Sequence[str] | None = None) -> int:
    """Parse, resolve, and run; returns the exit code."""
    try:
        parsed = parse_ppo(sys.argv[1:] if argv is None else argv)
        tell("warning", parsed.warnings)
        resolution = resolve(parsed.config, os.environ)
    except ConfigError as error:
        tell("error", error.problems)
        return EXIT_REFUSED
    tell("warning", resolution.warnings)
    if parsed.dry_run:
        print(to_yaml(resolution.config, resolution.derived), end="")
        return run_to_exit_code(lambda: _check(resolution.config), _expected_failures)
    code = run_to_exit_code(lambda: _train(resolution), _expected_failures)
    tell("warning", resolution.closing)
    return code


def _check(config: PPOConfig) -> None:
    from openrlhf.pipeline.check import check_inputs

    check_inputs(config)


def _train(resolution: Resolution) -> None:
    with HeavyImports():
        from openrlhf.pipeline.run import run
    run(resolution.config, resolution.derived)


def _expected_failures() -> ExceptionTypes:
    from openrlhf.pipeline.failures import EXPECTED_FAILURES

    return EXPECTED_FAILURES


if __name__ == "__main__":
    sys.exit(main())

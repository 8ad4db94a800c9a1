"""From what was asked to what will run: every check before any model loads, every problem reported at once.

The environment is a mapping that the command hands over. Read of it:

    WANDB_API_KEY   the key, if a --logger.wandb.* flag is given without one
    OPENRLHF_PATH   where relative output paths start inside a Ray job
    those of config/variables.py, each of which stands for a flag
    RAY_ADDRESS, RAY_JOB_CONFIG_JSON_ENV_VAR   whether the run belongs to a Ray cluster or to a submitted job
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from openrlhf.config.bounds import bound_problems
from openrlhf.config.device import resolve_device
from openrlhf.config.draft import Draft
from openrlhf.config.env_rules import service_problems
from openrlhf.config.errors import ConfigError
from openrlhf.config.idle import warn_idle
from openrlhf.config.inputs import resolve_inputs
from openrlhf.config.machine import Machine, detect_machine
from openrlhf.config.optimiser import check_optimisers
from openrlhf.config.outputs import resolve_outputs
from openrlhf.config.placement import resolve_placement
from openrlhf.config.planned import refused
from openrlhf.config.ppo import PPOConfig
from openrlhf.config.rules import (
    resolve_algorithm,
    resolve_batches,
    resolve_lengths,
    resolve_logging,
    resolve_pipeline,
)
from openrlhf.config.schema import values
from openrlhf.config.shaping_rules import resolve_shaping
from openrlhf.config.variables import with_variables
from openrlhf.config.vision import resolve_vision

_RAY_JOB = "RAY_JOB_CONFIG_JSON_ENV_VAR"  # set by Ray for the command of a submitted job


@dataclass(frozen=True, slots=True)
class Resolution:
    """The config that runs, device-dependent values filled in, and what its user should know.

    `closing`: the warnings worth saying again when the run has ended. `derived`: the flags that nobody gave and whose
    values were worked out.
    """

    config: PPOConfig
    warnings: tuple[str, ...]
    closing: tuple[str, ...] = ()
    derived: frozenset[str] = frozenset()


def resolve(
    config: PPOConfig, environ: Mapping[str, str], machine: Machine | None = None, root: Path | None = None
) -> Resolution:
    """Check and complete a config; ConfigError lists all problems, one line each with flag, value and way out.

    `machine`: what to plan for, detected when None. `root`: where relative paths start, the working directory when
    None. Resolving a resolved config changes nothing.
    """
    ray_job = _RAY_JOB in environ
    machine = machine or detect_machine(count_gpus=config.device != "cpu")  # counting them imports torch
    cluster = ray_job or machine.runs_ray or bool(environ.get("RAY_ADDRESS"))
    config, warnings, problems = with_variables(config, environ)
    draft = Draft(config, machine, ray_job=ray_job, cluster=cluster, root=root)
    draft.warnings += warnings
    out_of_bounds = bound_problems(config)
    draft.problems += [*problems, *refused(config), *out_of_bounds]
    check_optimisers(draft)
    resolve_device(draft)
    resolve_pipeline(draft)
    resolve_logging(draft, environ.get("WANDB_API_KEY"))
    asked = config.model_copy(update={"device": draft.config.device, "logger": draft.config.logger})
    warn_idle(draft, asked)
    resolve_inputs(draft)
    resolve_outputs(draft, environ.get("OPENRLHF_PATH"))
    resolve_lengths(draft)
    resolve_algorithm(draft)
    resolve_shaping(draft)
    resolve_vision(draft)
    draft.problems += service_problems(draft.config.env)
    if not out_of_bounds:  # sizes are divided by each other
        resolve_placement(draft)
        resolve_batches(draft)
    if draft.problems:
        raise ConfigError(list(dict.fromkeys(draft.problems)))
    before = values(config)
    changed = {path for path, value in values(draft.config).items() if value != before[path]}
    derived = frozenset(changed - draft.given)
    return Resolution(draft.config, tuple(dict.fromkeys(draft.warnings)), tuple(draft.closing), derived)

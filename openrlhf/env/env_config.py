"""The environments by name: what a label's `env_func` runs in. A new one is a folder beside this file and a line here.

A value makes the executor of an environment's episodes: it is called once in every engine's process, with the
`--env.*` flags, and what it returns serves all samples of that engine, many at once.

    def make_my_env(env: EnvConfig) -> Executor:      # interfaces.Executor: async execute(...) -> Trajectory, close()
        return MyExecutor(env.my_section)

The engine that it is given keeps `--env.max_generations`, and raises TimeoutError where a generation takes longer than
`--env.request_timeout`.

An executor that returns a trajectory without an outcome leaves the verdict to the task's reward (`reward_config.py`),
and tells it what it counted in `Trajectory.facts`. One that always gives an outcome of its own stands in
`GRADES_ITSELF` too: its rows then need neither a task nor a source of rewards. An exception in it leaves that sample
without a verdict.

Functions of the older form, `(url, headers, idx, request, tokenizer, use_reward)`, may stand here too (`legacy.py`).
"""

from collections.abc import Callable
from typing import Any

from openrlhf.config.env import EnvConfig
from openrlhf.env.errors import unknown
from openrlhf.env.legacy import LegacyExecutor, is_generate
from openrlhf.env.math_tir.executor import math_tir
from openrlhf.interfaces import Executor

MakeExecutor = Callable[[EnvConfig], Executor]

ENV_GENERATE_CONFIG: dict[str, MakeExecutor | Callable[..., Any]] = {
    "math_tir_generate": math_tir,
    "math_tir_async": math_tir,
}

GRADES_ITSELF: set[str] = set()


def check_environment(name: str) -> None:
    """EnvError, listing the known ones, where no environment has that name."""
    if name not in ENV_GENERATE_CONFIG:
        raise unknown("environment (env_func; openrlhf/env/env_config.py)", name, ENV_GENERATE_CONFIG)


def environments_of(env: EnvConfig) -> Callable[[str], Executor]:
    """A function from a name to its executor. Names of one thing share its executor, and so the limits inside.

    It raises EnvError for a name that no environment has, and where one cannot be used on this machine.
    """
    made: dict[Any, Executor] = {}

    def executor(name: str) -> Executor:
        check_environment(name)
        entry = ENV_GENERATE_CONFIG[name]
        if entry not in made:
            made[entry] = LegacyExecutor(name, entry, env) if is_generate(entry) else entry(env)
        return made[entry]

    return executor

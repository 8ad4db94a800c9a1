"""A config on its way to being resolved, with what was noticed on the way."""

from pathlib import Path
from typing import Any, TypeVar

from openrlhf.config.base import Section
from openrlhf.config.machine import Machine
from openrlhf.config.ppo import PPOConfig
from openrlhf.config.schema import given

_S = TypeVar("_S", bound=Section)


class Draft:
    """Rules read `config`, change it by `set`, and leave one line per warning and per problem.

    `given` stays what the user gave, whatever rules set. `ray_job`: the process was started by `ray job submit`.
    `cluster`: it belongs to a Ray cluster that may have more machines than this one.
    """

    def __init__(
        self,
        config: PPOConfig,
        machine: Machine,
        *,
        ray_job: bool = False,
        cluster: bool = False,
        root: Path | None = None,
    ) -> None:
        self.config = config
        self.machine = machine
        self.ray_job = ray_job
        self.cluster = cluster
        self.root = root or Path.cwd()  # relative input paths start here
        self.given = given(config)
        self.warnings: list[str] = []
        self.problems: list[str] = []
        self.closing: list[str] = []  # warnings that stand again at the end of the run

    def warn(self, line: str) -> None:
        self.warnings.append(line)

    def problem(self, line: str) -> None:
        self.problems.append(line)

    def set(self, path: str, value: Any) -> None:
        self.config = _with(self.config, path, value)


def _with(section: _S, path: str, value: Any) -> _S:
    """A copy of a section with one field changed, checked like any input."""
    name, _, rest = path.partition(".")
    fields = dict(section)
    fields[name] = _with(fields[name], rest, value) if rest else value
    return type(section).model_validate(fields)

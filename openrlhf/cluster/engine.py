"""One vLLM engine of a run: the process that is it now, and how often it had to be replaced."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import ray

from openrlhf.cluster.errors import EngineLost
from openrlhf.cluster.specs import GroupRequest


class EngineState(Enum):
    STARTING = "starting"  # its process loads the model
    STALE = "stale"  # it is up, with the weights of the model's folder
    READY = "ready"  # it holds the weights of the last update, and takes requests


@dataclass(slots=True)
class Engine:
    """`make` starts a process for it."""

    index: int
    make: Callable[[], Any]
    max_restarts: int
    actor: Any = None
    state: EngineState = EngineState.READY  # the first weights are those of the model's folder
    restarts: int = 0
    load: int = 0  # samples in flight
    calls: dict[Any, GroupRequest] = field(default_factory=dict)  # groups in flight, by their call
    batch: Sequence[GroupRequest] = ()  # what it runs as one batch, with full determinism

    def __post_init__(self) -> None:
        self.actor = self.make()

    @property
    def name(self) -> str:
        return f"vLLM engine {self.index}"

    def restart(self, reason: str) -> list[GroupRequest]:
        """Replace the process, which is dead or useless; the requests that go down with it.

        Raises:
            EngineLost: it was restarted as often as it may be.
        """
        if self.restarts >= self.max_restarts:
            raise EngineLost(self.name, reason, self.max_restarts)
        self.restarts += 1
        ray.kill(self.actor)
        lost = list(self.calls.values())
        self.calls, self.load = {}, 0
        self.actor, self.state = self.make(), EngineState.STARTING
        return lost

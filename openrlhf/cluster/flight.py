"""Calls that are under way, each with its own deadline; more may join at any time."""

import time
from dataclasses import dataclass
from typing import Any

import ray

from openrlhf.cluster.errors import PeerTimeout
from openrlhf.cluster.wait import fetch


@dataclass(frozen=True, slots=True)
class _Call:
    peer: str
    seconds: float
    deadline: float


class Flight:
    """What was asked of peers and is not answered yet; `work` names it in errors."""

    def __init__(self, work: str) -> None:
        self._work = work
        self._calls: dict[Any, _Call] = {}

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, ref: Any, peer: str, seconds: float) -> None:
        """A call of `peer` that must be answered within so many seconds from now."""
        self._calls[ref] = _Call(peer, seconds, time.monotonic() + seconds)

    def next(self, within: float | None = None) -> tuple[Any, Any] | None:
        """(ref, result) of the first call to be answered; None if none was `within` so many seconds.

        Raises:
            PeerTimeout: a call is past its deadline; PeerDied; or what a peer raised.
        """
        late = min(self._calls.values(), key=lambda call: call.deadline)
        left = max(0.0, late.deadline - time.monotonic())
        patience = left if within is None else min(left, within)
        ready, _ = ray.wait(list(self._calls), num_returns=1, timeout=patience)
        if not ready and patience < left:
            return None
        if not ready:
            raise PeerTimeout(late.peer, self._work, late.seconds)
        (ref,) = ready
        return ref, fetch(ref, self._calls.pop(ref).peer, self._work)

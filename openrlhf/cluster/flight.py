"""Calls that are under way, each with its own deadline; more may join at any time, from any thread."""

import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import ray

from openrlhf.cluster.errors import PeerTimeout
from openrlhf.cluster.wait import fetch


class Dropped(Exception):
    """Nobody waits for the call any more."""


@dataclass(frozen=True, slots=True)
class _Call:
    peer: str
    work: str
    seconds: float
    deadline: float


class Flight:
    """What was asked of peers and is not answered yet."""

    def __init__(self) -> None:
        self._calls: dict[Any, _Call] = {}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._calls)

    def add(self, ref: Any, peer: str, work: str, seconds: float) -> None:
        """A call of `peer` that must be answered within so many seconds from now; `work` names it in errors."""
        with self._lock:
            self._calls[ref] = _Call(peer, work, seconds, time.monotonic() + seconds)

    def drop(self, refs: Iterable[Any]) -> None:
        """Nobody waits for these any more."""
        with self._lock:
            for ref in refs:
                self._calls.pop(ref, None)

    def ready(self, within: float | None = None) -> Any | None:
        """The first call to be answered, to be taken next; None if none was `within` so many seconds, or none flies.

        Raises:
            PeerTimeout: a call is past its deadline.
        """
        with self._lock:
            calls = dict(self._calls)
        if not calls:
            return None
        late = min(calls.values(), key=lambda call: call.deadline)
        left = max(0.0, late.deadline - time.monotonic())
        patience = left if within is None else min(left, within)
        ready, _ = ray.wait(list(calls), num_returns=1, timeout=patience)
        if ready:
            return ready[0]
        if patience < left:
            return None
        raise PeerTimeout(late.peer, late.work, late.seconds)

    def take(self, ref: Any) -> Any:
        """The answer to a call that is ready.

        Raises:
            Dropped: it was dropped in the meantime. PeerDied, or what the peer raised.
        """
        with self._lock:
            call = self._calls.pop(ref, None)
        if call is None:
            raise Dropped
        return fetch(ref, call.peer, call.work)

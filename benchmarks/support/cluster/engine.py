"""One engine with continuous batching, as a queue whose server is shared.

While n requests are decoded, each gets a token every `base + per_request * n` seconds. So time is counted in tokens,
the same for all requests: one that starts at token V and needs L ends at V + L, whoever comes and goes meanwhile.
"""

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import simpy

Done = Callable[[], None]
_NEARLY = 1e-9  # tokens: rounding of times must not keep a request that has ended


@dataclass(frozen=True, slots=True)
class Speed:
    """Seconds of one decoding step with n requests: base + per_request * n; at most `slots` are decoded at once."""

    base: float
    per_request: float
    slots: int = 256

    def step_seconds(self, requests: int) -> float:
        return self.base + self.per_request * requests


@dataclass(frozen=True, slots=True)
class _Request:
    tokens: float
    started: Callable[[int], None]
    done: Done


class Engine:
    """Takes requests, and new weights between them: `update` holds back new requests until it is done."""

    def __init__(self, environment: simpy.Environment, speed: Speed) -> None:
        self._environment = environment
        self._speed = speed
        self._tokens = 0.0  # V: tokens that a request would have got since the start
        self._since = environment.now  # when V was right
        self._ends: list[tuple[float, int, Done]] = []  # heap of what is decoded: V at the end, number, callback
        self._waiting: deque[_Request] = deque()  # for a slot
        self._held: deque[_Request] = deque()  # until the weights are there
        self._number = 0
        self._alarm = 0  # only the newest alarm rings
        self._closed = False
        self._paused = False
        self._idle: simpy.Event | None = None
        self.busy_seconds = 0.0
        self.version = 0

    @property
    def load(self) -> int:
        """Requests in it, held ones included."""
        return len(self._ends) + len(self._waiting) + len(self._held)

    def generate(self, tokens: float, started: Callable[[int], None], done: Done) -> None:
        """Decode so many tokens, then call `done`. `started` hears the version of the weights that sample the first."""
        request = _Request(tokens, started, done)
        if self._closed:
            self._held.append(request)
        else:
            self._take(request)

    def update(self, version: int, seconds: float, keep_in_flight: bool) -> Any:
        """Load new weights: a process. Waits for what was asked before, or pauses it where it is kept in flight."""
        self._closed = True
        if keep_in_flight:
            self._advance()
            self._paused = True
        elif self._ends or self._waiting:
            self._idle = self._environment.event()
            yield self._idle
            self._idle = None
        yield self._environment.timeout(seconds)
        self._advance()
        self.version, self._closed, self._paused = version, False, False
        held, self._held = self._held, deque()
        for request in held:
            self._take(request)
        self._set_alarm()

    def _take(self, request: _Request) -> None:
        if len(self._ends) >= self._speed.slots:
            self._waiting.append(request)
            return
        self._advance()
        self._start(request)
        self._set_alarm()

    def _start(self, request: _Request) -> None:
        request.started(self.version)
        self._number += 1
        heapq.heappush(self._ends, (self._tokens + request.tokens, self._number, request.done))

    def _advance(self) -> None:
        """Bring V to the present."""
        passed = self._environment.now - self._since
        if self._ends and not self._paused:
            self._tokens += passed / self._speed.step_seconds(len(self._ends))
            self.busy_seconds += passed
        self._since = self._environment.now

    def _set_alarm(self) -> None:
        """For the next request that ends, unless something changes before."""
        self._alarm += 1
        if not self._ends or self._paused:
            return
        alarm = self._alarm
        missing = max(0.0, self._ends[0][0] - self._tokens)
        timeout = self._environment.timeout(missing * self._speed.step_seconds(len(self._ends)))
        timeout.callbacks.append(lambda _: self._ring(alarm))

    def _ring(self, alarm: int) -> None:
        if alarm != self._alarm:
            return
        self._advance()
        finished: list[Done] = []
        while self._ends and self._ends[0][0] <= self._tokens + _NEARLY:
            finished.append(heapq.heappop(self._ends)[2])
            if self._waiting:
                self._start(self._waiting.popleft())
        self._set_alarm()
        if not self._ends and self._idle is not None:
            self._idle.succeed()
        for done in finished:
            done()

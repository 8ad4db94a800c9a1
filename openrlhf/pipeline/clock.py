"""Seconds of each phase of a step, and seconds of doing nothing."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


class PhaseClock:
    """Adds up wall-clock seconds by phase; `lap()` hands them out as `timing/...` metrics and starts again."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._lap_start = time.perf_counter()

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self._seconds[name] = self._seconds.get(name, 0.0) + time.perf_counter() - start

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Leave the block's time out of the lap: it belongs to no step."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._lap_start += time.perf_counter() - start

    def lap(self) -> dict[str, float]:
        now = time.perf_counter()
        metrics = {f"timing/{name}": seconds for name, seconds in self._seconds.items()}
        metrics["timing/step_total"] = now - self._lap_start
        self._seconds, self._lap_start = {}, now
        return metrics


@dataclass(slots=True)
class IdleClock:
    """Seconds of doing nothing, added up until they are asked for."""

    seconds: float = 0.0
    since: float | None = None

    def begin(self) -> None:
        if self.since is None:
            self.since = time.monotonic()

    def end(self) -> None:
        if self.since is not None:
            self.seconds += time.monotonic() - self.since
            self.since = None

    def lap(self) -> float:
        running = self.since is not None
        self.end()
        seconds, self.seconds = self.seconds, 0.0
        if running:
            self.begin()
        return seconds

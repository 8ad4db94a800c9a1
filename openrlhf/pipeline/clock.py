"""Seconds of each phase of a step."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


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

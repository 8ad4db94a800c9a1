"""Wall seconds during which at least one of several overlapping activities was under way."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class BusyClock:
    """Counts the union of overlapping intervals, so concurrent work is not counted twice.

    Example: two activities over [0, 3] and [2, 5] give 5 busy seconds, not 6.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._active = 0
        self._since = 0.0
        self._total = 0.0

    def start(self) -> None:
        if self._active == 0:
            self._since = self._now()
        self._active += 1

    def stop(self) -> None:
        self._active -= 1
        if self._active == 0:
            self._total += self._now() - self._since

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the time spent inside, together with every other activity of this clock."""
        self.start()
        try:
            yield
        finally:
            self.stop()

    @property
    def active(self) -> int:
        """Activities under way now."""
        return self._active

    @property
    def seconds(self) -> float:
        """Busy seconds so far, the current stretch included."""
        return self._total + (self._now() - self._since if self._active else 0.0)

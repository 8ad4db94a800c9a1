"""What gives the samples of one engine their rewards: so many at once, first come, first served."""

from collections import deque
from collections.abc import Callable

import simpy

Done = Callable[[], None]


class Graders:
    """`count` of them; None: as many as there are samples."""

    def __init__(self, environment: simpy.Environment, count: int | None) -> None:
        self._environment = environment
        self._free = count
        self._waiting: deque[tuple[float, Done]] = deque()

    def grade(self, seconds: float, done: Done) -> None:
        """Call `done` so many seconds after a grader has time for it."""
        if self._free == 0:
            self._waiting.append((seconds, done))
            return
        if self._free is not None:
            self._free -= 1
        self._begin(seconds, done)

    def _begin(self, seconds: float, done: Done) -> None:
        if seconds > 0:
            self._environment.timeout(seconds).callbacks.append(lambda _: self._end(done))
        else:
            self._end(done)

    def _end(self, done: Done) -> None:
        if self._waiting:
            self._begin(*self._waiting.popleft())
        elif self._free is not None:
            self._free += 1
        done()

"""A fixed number of places for runs, shared by callers on any event loop.

asyncio's own semaphore belongs to the first loop that waits on it; a router may be mounted in two servers, each with a
loop of its own, and its places still have to be counted together.
"""

import asyncio
import threading
from collections import deque
from types import TracebackType


class Slots:
    """`async with slots:` holds one place; who waits longest is next.

    Args:
        count: places in all, at least 1.

    Raises:
        TypeError: `count` is no whole number.
        ValueError: `count` is below 1.
    """

    def __init__(self, count: int) -> None:
        if isinstance(count, bool) or not isinstance(count, int):
            raise TypeError(f"max_parallel is {count!r}; give a whole number, at least 1")
        if count < 1:
            raise ValueError(f"max_parallel is {count}; give a whole number, at least 1")
        self.count = count
        self.in_use = 0
        self._lock = threading.Lock()
        self._waiting: deque[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = deque()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    async def __aenter__(self) -> "Slots":
        with self._lock:
            if self.in_use < self.count:
                self.in_use += 1
                return self
            loop = asyncio.get_running_loop()
            turn: asyncio.Future[None] = loop.create_future()
            self._waiting.append((loop, turn))
        try:
            await turn
        except asyncio.CancelledError:
            with self._lock:
                still_queued = (loop, turn) in self._waiting
                if still_queued:
                    self._waiting.remove((loop, turn))
            if not still_queued:  # the place was handed over just before the caller gave up
                self._pass_on()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pass_on()

    def _pass_on(self) -> None:
        """Give one place to who waits longest, or back. A waiter whose loop is gone is passed over."""
        with self._lock:
            while self._waiting:
                loop, turn = self._waiting.popleft()
                try:
                    loop.call_soon_threadsafe(_wake, turn)
                except RuntimeError:  # that loop is closed, and its caller with it
                    continue
                return
            self.in_use -= 1


def _wake(turn: "asyncio.Future[None]") -> None:
    if not turn.done():
        turn.set_result(None)

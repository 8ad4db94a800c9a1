"""Threads for the code of verifiers, which may be slow or never come back."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

from deepgym.exceptions import DeepGymError, VerifierError, named

# For one judgement of an answer, and for the making of one set of cases: the thread's own CPU time, which others that
# share the interpreter do not use up; and wall time in which it used next to none, so that it waits for something.
JUDGE_SECONDS = 30.0
HANG_SECONDS = 60.0
# What takes longer goes on beside the others instead of in their place; its clock is looked at as often.
PLACE_SECONDS = 1.0

T = TypeVar("T")


class VerifierThreads:
    """Runs pieces of verifiers' work, each on a daemon thread of its own; for one event loop.

    A thread that hangs cannot be ended. So it gives its place to the next after PLACE_SECONDS, nobody waits for it any
    longer once it has used JUDGE_SECONDS or hung for HANG_SECONDS, and a program ends without it.

    count: pieces in places at once, and as many again that gave theirs back. All share one interpreter, where more of
        them would only make each slower. A piece that was given up, as it is over a limit, counts no more.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self.places = asyncio.Semaphore(count)
        self.overdue = 0  # pieces that gave their place back and are not over a limit

    async def run(self, name: str, work: Callable[[], T]) -> T:
        """The result of `work`; `name` stands for it in errors: "coin_change: verifier.judge".

        Raises the DeepGymError that `work` raises, and VerifierError when it raises anything else or takes too long.
        """
        await self.places.acquire()
        piece = _Piece(self, name, work)
        try:
            piece.start()
            return await piece.ended
        finally:
            piece.ended.cancel()


class _Piece(Generic[T]):
    """One piece of work. It counts for the two bounds until it ends or is over a limit, whether or not one waits."""

    def __init__(self, threads: VerifierThreads, name: str, work: Callable[[], T]) -> None:
        self._threads, self._name, self._work = threads, name, work
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[T] = self._loop.create_future()
        self._clock: int | None = None  # of the thread's CPU time, once it runs
        self._overdue = self._left = False
        self._moved = time.monotonic(), 0.0  # wall and CPU time when it last had used a good part of its share
        # Seconds: one that hangs uses less, one that works more than an eighth of its share, even on a busy host.
        self._hanging_below = min(1.0, HANG_SECONDS / (2 * threads.count) / 8)
        self._timer = self._loop.call_later(PLACE_SECONDS, self._look)

    def start(self) -> None:
        """Raises RuntimeError when the host has no thread left."""
        try:
            threading.Thread(target=self._thread, name="deepgym-judge", daemon=True).start()
        except RuntimeError:
            self._leave()
            raise

    def _thread(self) -> None:
        self._clock = time.pthread_getcpuclockid(threading.get_ident())  # asked from outside, an ended thread crashes
        result, failure = _outcome(self._name, self._work)
        with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile, and nobody waits
            self._loop.call_soon_threadsafe(self._settle, result, failure)

    def _settle(self, result: T | None, failure: DeepGymError | None) -> None:
        self._leave()
        if self.ended.done():  # nobody waits any more
            return
        if failure is not None:
            self.ended.set_exception(failure)
        else:
            self.ended.set_result(result)  # type: ignore[arg-type]  # T may itself hold None

    def _look(self) -> None:
        """Give it up if it is over a limit, else let the next have its place if there is room beside."""
        too_long = self._over_a_limit()
        if too_long is not None:
            self._settle(None, VerifierError(f"{self._name} {too_long}"))
            return
        if not self._overdue and self._threads.overdue < self._threads.count:
            self._overdue = True
            self._threads.overdue += 1
            self._threads.places.release()
        self._timer = self._loop.call_later(PLACE_SECONDS, self._look)

    def _over_a_limit(self) -> str | None:
        now, used = time.monotonic(), 0.0
        if self._clock is not None:
            try:
                used = time.clock_gettime(self._clock)
            except OSError:  # the thread has ended, and its result is on the way
                return None
        if used >= JUDGE_SECONDS:
            return f"took more than {JUDGE_SECONDS:g} s of CPU time"
        since, used_then = self._moved
        if used - used_then >= self._hanging_below:
            self._moved = now, used
        elif now - since >= HANG_SECONDS:
            return f"hangs: it used hardly any CPU time in {HANG_SECONDS:g} s"
        return None

    def _leave(self) -> None:
        if self._left:
            return
        self._left = True
        self._timer.cancel()
        if self._overdue:
            self._threads.overdue -= 1
        else:
            self._threads.places.release()


def _outcome(name: str, work: Callable[[], T]) -> tuple[T | None, DeepGymError | None]:
    """The result of `work`, or why there is none."""
    try:
        return work(), None
    except DeepGymError as error:
        return None, error
    except BaseException as error:  # a verifier's data may raise anything when it is looked at
        failure = VerifierError(f"{name} failed: {named(error)}")
        failure.__cause__ = error
        return None, failure

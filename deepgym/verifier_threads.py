"""Threads for the code of verifiers, which may be slow or never come back."""

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

from deepgym.exceptions import DeepGymError, VerifierError, named

JUDGE_SECONDS = 30.0  # for one judgement of an answer, and for the making of one set of cases
PLACE_SECONDS = 1.0  # what takes longer goes on beside the others instead of in their place

T = TypeVar("T")


class VerifierThreads:
    """Runs pieces of verifiers' work, each on a daemon thread of its own; for one event loop.

    A thread that hangs cannot be ended. So it holds no place for longer than PLACE_SECONDS, nobody waits for it
    longer than JUDGE_SECONDS, and a program ends without it.

    count: pieces at once, without those that have been at work for longer than PLACE_SECONDS.
    """

    def __init__(self, count: int) -> None:
        self._places = asyncio.Semaphore(count)

    async def run(self, name: str, work: Callable[[], T]) -> T:
        """The result of `work`; `name` stands for it in errors: "coin_change: verifier.judge".

        Raises the DeepGymError that `work` raises, and VerifierError when it raises anything else or takes too long.
        """
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[T] = loop.create_future()
        await self._places.acquire()
        place = _Place(self._places)

        def settle(result: T | None, failure: DeepGymError | None) -> None:
            place.leave()
            if ended.done():  # nobody waits any more
                return
            if failure is not None:
                ended.set_exception(failure)
            else:
                ended.set_result(result)  # type: ignore[arg-type]  # T may itself hold None

        def thread() -> None:
            result, failure = _outcome(name, work)
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile, and nobody waits
                loop.call_soon_threadsafe(settle, result, failure)

        try:
            threading.Thread(target=thread, name="deepgym-judge", daemon=True).start()
        except RuntimeError:  # the host has no thread left
            place.leave()
            raise
        try:
            await asyncio.wait({ended}, timeout=JUDGE_SECONDS)
            if not ended.done():
                raise VerifierError(f"{name} took more than {JUDGE_SECONDS:g} s")
            return ended.result()
        finally:
            ended.cancel()


class _Place:
    """A place of the semaphore, given back once: by `leave`, or by itself after PLACE_SECONDS."""

    def __init__(self, places: asyncio.Semaphore) -> None:
        self._places, self._left = places, False
        self._timer = asyncio.get_running_loop().call_later(PLACE_SECONDS, self.leave)

    def leave(self) -> None:
        if not self._left:
            self._left = True
            self._timer.cancel()
            self._places.release()


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

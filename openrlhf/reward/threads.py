"""Threads that run somebody else's blocking function for an event loop, and survive its hanging.

`concurrent.futures` will not do: its threads are joined when Python exits, so one hung call would keep the
process alive for ever, and a hung call would hold its place in the pool.
"""

import asyncio
import queue
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class _Job:
    call: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    future: "asyncio.Future[_Result]"


@dataclass(frozen=True, slots=True)
class _Result:
    """Boxed, because a future cannot hold every exception (StopIteration) and must not mistake a TimeoutError."""

    value: Any
    error: BaseException | None


class _Worker(threading.Thread):
    def __init__(self, done: "Callable[[_Worker], None]") -> None:
        super().__init__(daemon=True, name="reward-function")
        self.jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._done = done

    def run(self) -> None:
        while (job := self.jobs.get()) is not None:
            try:
                result = _Result(job.call(), None)
            except BaseException as error:  # handed over: the awaiting side attributes or re-raises it
                result = _Result(None, error)
            try:
                job.loop.call_soon_threadsafe(self._settle, job.future, result)
            except RuntimeError:  # the loop is closed: nobody waits any more
                return

    def _settle(self, future: "asyncio.Future[_Result]", result: _Result) -> None:
        """On the loop: hand over, unless the caller gave up, and be free again."""
        if not future.done():
            future.set_result(result)
        self._done(self)


class HangingThreadPool:
    """At most `limit` calls at work at once; a call that overruns its time is abandoned and gives up its place.

    All bookkeeping happens on one event loop, the first that calls `run`. An abandoned thread comes back into use
    if its call ever ends.
    """

    def __init__(self, limit: int) -> None:
        self._slots = asyncio.Semaphore(limit)
        self._idle: list[_Worker] = []
        self._abandoned: set[_Worker] = set()
        self._closed = False

    @property
    def hung(self) -> int:
        """Abandoned calls that are still running."""
        return len(self._abandoned)

    async def run(self, call: Callable[[], Any], timeout_s: float) -> Any:
        """The call's return value.

        Raises:
            TimeoutError: `timeout_s` seconds after the call began (waiting for a place does not count).
            CallFailed: holds the exception the call raised, so that its own TimeoutError is not taken for ours.
        """
        async with self._slots:
            worker = self._idle.pop() if self._idle else self._start()
            loop = asyncio.get_running_loop()
            future: asyncio.Future[_Result] = loop.create_future()
            worker.jobs.put(_Job(call, loop, future))
            try:
                result = await asyncio.wait_for(future, timeout_s)
            except BaseException:  # out of time or cancelled: the thread cannot be stopped, only left behind
                if future.cancelled():
                    self._abandoned.add(worker)
                raise
        if result.error is not None:
            raise CallFailed(result.error)
        return result.value

    def close(self) -> None:
        """End the idle threads; those still in a call end after it, or with the process."""
        self._closed = True
        while self._idle:
            self._idle.pop().jobs.put(None)

    def _start(self) -> _Worker:
        worker = _Worker(self._release)
        worker.start()
        return worker

    def _release(self, worker: _Worker) -> None:
        self._abandoned.discard(worker)
        if self._closed:
            worker.jobs.put(None)
        else:
            self._idle.append(worker)


class CallFailed(Exception):
    """The call raised `error`."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(error)
        self.error = error

    def __str__(self) -> str:
        return type(self.error).__name__

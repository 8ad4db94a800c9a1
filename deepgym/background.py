"""One event loop on a thread of its own, and the handing over of coroutines to it."""

import asyncio
import concurrent.futures
import logging
import os
import threading
from collections.abc import Coroutine
from typing import Any, Generic, TypeVar

from deepgym.exceptions import SandboxError, named

logger = logging.getLogger(__name__)

T = TypeVar("T")


class Running(Generic[T]):
    """A coroutine that was handed over: its result, and the way to cancel it from any thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> None:
        # Never cancelled itself: it settles when the task has ended, so who waits for it sees the run gone.
        self.future: concurrent.futures.Future[T] = concurrent.futures.Future()
        self._loop = loop
        self._work = work
        self._task: asyncio.Task[T] | None = None
        loop.call_soon_threadsafe(self._launch)

    def cancel(self) -> None:
        """Ask the task to stop; `future` settles when it has. Without effect on a finished one."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._cancel)

    def _launch(self) -> None:
        self._task = self._loop.create_task(self._work)
        self._task.add_done_callback(self._settle)

    def _cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _settle(self, task: "asyncio.Task[T]") -> None:
        if task.cancelled():
            self.future.set_exception(SandboxError("the run was cancelled before it had a result"))
        elif (error := task.exception()) is None:
            self.future.set_result(task.result())
        elif isinstance(error, Exception):
            self.future.set_exception(error)
        else:  # such as SystemExit, which would end the loop of whoever waits
            failure = SandboxError(f"the run ended with {named(error)}")
            failure.__cause__ = error
            self.future.set_exception(failure)


class BackgroundLoop:
    """An event loop on a daemon thread, started by the first hand-over; for the process that started it.

    A forked child has the loop's memory, but not its thread. One that was not started yet serves the child.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._process: int | None = None  # that started the loop

    @property
    def lost_in_a_fork(self) -> bool:
        """This process is a fork of the one that started the loop."""
        return self._process not in (None, os.getpid())

    def submit(self, work: Coroutine[Any, Any, T]) -> Running[T]:
        """Start `work` on the loop. Raises RuntimeError when the loop was stopped, or started before a fork."""
        if self.lost_in_a_fork:
            work.close()
            raise RuntimeError("this DeepGym was used before a fork; make one in each process")
        with self._lock:
            if self._stopped:
                work.close()
                raise RuntimeError("this DeepGym is closed; make a new one")
            if self._loop is None:
                self._process = os.getpid()
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=_serve, args=(self._loop,), name=self._name, daemon=True)
                self._thread.start()
            return Running(self._loop, work)

    def wait(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Run `work` on the loop and return its result; an interrupt of the waiting thread cancels it."""
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("a blocking call from the loop it would wait for; use the async twin")
        running = self.submit(work)
        try:
            return running.future.result(timeout)
        finally:
            running.cancel()

    async def wait_async(self, work: Coroutine[Any, Any, T], stop_seconds: float) -> T:
        """Run `work` on the loop while the caller's own loop goes on.

        When the caller is cancelled, so is the work, and the cancellation goes on once the work has ended, at the
        latest after `stop_seconds`.
        """
        running = self.submit(work)
        ended = asyncio.wrap_future(running.future)
        try:
            return await asyncio.shield(ended)
        except asyncio.CancelledError:
            running.cancel()
            await asyncio.wait({ended}, timeout=stop_seconds)
            if ended.done():
                ended.exception()  # seen, so that asyncio does not report it as lost
            raise

    def stop(self, last: Coroutine[Any, Any, None], timeout: float) -> None:
        """Run `last`, cancel what is left, stop the loop. Idempotent; raises what `last` raises.

        Does nothing in a fork of the process that started the loop, whose it is to stop.
        """
        if self.lost_in_a_fork:
            last.close()
            return
        with self._lock:
            loop, thread, already = self._loop, self._thread, self._stopped
            self._stopped = True
        if already or loop is None or thread is None:
            last.close()
            return
        try:
            asyncio.run_coroutine_threadsafe(_finish(last), loop).result(timeout)
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(timeout)
            if not thread.is_alive():
                loop.close()


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop until it is stopped. asyncio lets a task's KeyboardInterrupt and SystemExit end it: here they must
    not strand the other runs, and nobody's Ctrl-C reaches this thread."""
    while True:
        try:
            loop.run_forever()
        except (KeyboardInterrupt, SystemExit) as exc:
            logger.warning("a run on the loop of deepgym raised %s", named(exc))
        else:
            return


async def _finish(last: Coroutine[Any, Any, None]) -> None:
    """`last`, then the end of every other task of this loop."""
    try:
        await last
    finally:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

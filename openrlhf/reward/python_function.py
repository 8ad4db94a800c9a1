"""Rewards from a Python file: `reward_func(queries, prompts, labels)`, as the documents describe it.

    def reward_func(queries: list[str], prompts: list[str], labels: list[str]) -> dict:
        return {"rewards": [1.0], "scores": [1.0], "extra_logs": {"accuracy": 1.0}}

A query is prompt plus response, special tokens kept. One call grades one sample, so each list holds one text. Calls
run in threads, several at once, and never on the event loop. `reward_func` may be `async`; its coroutines then share
one event loop of their own. `normalise.py` says which return values are accepted.

A call that takes longer than `timeout_s` leaves its sample ungraded. A thread cannot be killed, so the call may run
on; when as many calls hang as may run at once, the run ends. Code that holds the interpreter lock (a catastrophic
regular expression) stops every thread of the process: such work belongs in a subprocess, as
`examples/python/math_reward_func.py` shows.
"""

import asyncio
import concurrent.futures
import inspect
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from openrlhf.config.disk import expanded
from openrlhf.faults import describe, is_ctrl_c, named
from openrlhf.reward.errors import RewardError
from openrlhf.reward.normalise import normalise
from openrlhf.reward.tally import Tally
from openrlhf.reward.threads import CallFailed, HangingThreadPool
from openrlhf.reward.user_file import load_module
from openrlhf.types import Prompt, RewardOutcome

FUNCTION = "reward_func"
GRACE_S = 1.0  # the thread of a cancelled coroutine is free again within this time


class PythonReward:
    """A RewardSource for one event loop. The file is loaded here, once; a faulty one raises RewardError at once.

    Args:
        path: the `.py` file.
        timeout_s: seconds one call may take before its sample is ungraded.
        concurrency: calls at work at once; the function must bear being called from that many threads.
    """

    def __init__(self, path: str | Path, timeout_s: float = 180.0, concurrency: int = 32) -> None:
        self.path = expanded(str(path)).absolute()
        self._function = _find_function(self.path)
        self._timeout_s = timeout_s
        self._concurrency = concurrency
        self._threads = HangingThreadPool(concurrency)
        self._coroutines = _CoroutineThread()
        self._tally = Tally()

    async def score(self, query: str, prompt: Prompt, response: str) -> RewardOutcome:
        """Grade one sample.

        Raises:
            RewardError: the function raised, returned a wrong form, or hangs in every thread.
        """
        try:
            raw = await self._threads.run(lambda: self._call(query, prompt), self._timeout_s)
        except TimeoutError:
            return await self._timed_out()
        except CallFailed as failure:
            if isinstance(failure.error, _CoroutineTimeout):
                return await self._timed_out()
            # A KeyboardInterrupt or a cancellation among it: no signal reaches a thread, so the function raised it.
            what = f"{FUNCTION} in {self.path} raised {describe(failure.error, self.path)}"
            raise RewardError(what) from failure.error
        return self._read(raw)

    async def close(self) -> None:
        self._threads.close()
        self._coroutines.close()

    def stats(self) -> dict[str, int]:
        """Ungraded samples so far, by kind."""
        return self._tally.counts()

    def _read(self, raw: Any) -> RewardOutcome:
        source = f"{FUNCTION} in {self.path}"
        try:
            return normalise(raw, 1, source, self._tally, bare=True)[0]
        except RewardError:
            raise
        except BaseException as error:  # the value may be an object of the file's own, which runs code of its own
            if is_ctrl_c(error):
                raise
            raise RewardError(f"{source}: its return value cannot be read: {named(error)}") from error

    def _call(self, query: str, prompt: Prompt) -> Any:
        """In a thread. Fresh lists each time: the function may change them."""
        raw = self._function([query], [prompt.text], [prompt.label])
        return self._coroutines.wait(raw, self._timeout_s) if inspect.iscoroutine(raw) else raw

    async def _timed_out(self) -> RewardOutcome:
        reason = f"{FUNCTION} in {self.path} took longer than {self._timeout_s:g} s"
        for _ in range(round(GRACE_S / 0.05)):
            if self._threads.hung < self._concurrency:
                break
            await asyncio.sleep(0.05)
        if self._threads.hung >= self._concurrency:
            raise RewardError(f"{reason}, {self._threads.hung} times, and every one of these calls still runs")
        self._tally.ungraded("timeout", reason)
        return RewardOutcome.ungraded(reason)


class _CoroutineTimeout(Exception):
    """A coroutine overran its time; a class of its own, since the coroutine may itself raise TimeoutError."""


class _CoroutineThread:
    """One event loop in one daemon thread, started with the first coroutine."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def wait(self, coroutine: Any, timeout_s: float) -> Any:
        """Block for the coroutine's result; after `timeout_s` cancel it and raise _CoroutineTimeout.

        A coroutine that blocks the loop cannot be cancelled: then this blocks too, and so counts as a call that hangs.
        """
        loop = self._running_loop()
        future = asyncio.run_coroutine_threadsafe(_boxed(coroutine), loop)
        if not concurrent.futures.wait([future], timeout_s).done:
            future.cancel()
            alive = threading.Event()
            loop.call_soon_threadsafe(alive.set)
            alive.wait()
            raise _CoroutineTimeout
        value, error = future.result()
        if error is not None:
            raise error
        return value

    def close(self) -> None:
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, daemon=True, name="reward-coroutines").start()
            return self._loop


async def _boxed(coroutine: Any) -> tuple[Any, BaseException | None]:
    """Keep the exception with its traceback: asyncio rebuilds TimeoutError, and lets SystemExit end the whole loop."""
    try:
        return await coroutine, None
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        return None, error


def _find_function(path: Path) -> Callable[..., Any]:
    names = load_module(path).__dict__
    if FUNCTION not in names:
        others = sorted(name for name, value in names.items() if inspect.isfunction(value))
        raise RewardError(f"reward file {path}: defines no {FUNCTION}; its functions are {others}")
    function = names[FUNCTION]
    if not callable(function):
        raise RewardError(f"reward file {path}: {FUNCTION} is a {type(function).__name__}, not a function")
    try:
        inspect.signature(function).bind([], [], [])
    except TypeError as error:
        raise RewardError(f"reward file {path}: {FUNCTION} must take (queries, prompts, labels): {error}") from error
    except ValueError:  # a callable written in C may have no signature
        pass
    return function

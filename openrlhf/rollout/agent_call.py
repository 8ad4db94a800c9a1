"""Calling the code of an agent: with a time limit, and so that nothing it raises reaches other episodes."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from openrlhf.faults import is_ctrl_c, named
from openrlhf.rollout.errors import AgentTimeout


async def call_agent(call: Callable[[], Any], timeout_s: float | None, what: str) -> Any:
    """Return what `call` returns, awaited where it is awaitable.

    Raises:
        AgentTimeout: `timeout_s` seconds have passed. The call is cancelled and not waited for: it may refuse.
        Exception: what the call raised; SystemExit, a KeyboardInterrupt or a cancellation of the agent's own making,
            and the like, as RuntimeError.

    The call runs on the engine's event loop: one that blocks instead of awaiting delays everybody and cannot be timed.
    """
    value, error = _begin(call)
    if error is None and inspect.isawaitable(value):
        value, error = await _finish(value, timeout_s, what)
    if isinstance(error, asyncio.CancelledError):
        raise RuntimeError(f"{what} was cancelled by its own code") from error
    if isinstance(error, SystemExit):
        raise RuntimeError(f"{what} called exit({error.code!r})") from error
    if error is None:
        return value
    if isinstance(error, Exception) or is_ctrl_c(error):
        raise error
    raise RuntimeError(f"{what} raised {named(error)}") from error  # in a task it would end the event loop


def _begin(call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """What the call itself returns, often something to await; a task for it alone would cost more than most calls."""
    try:
        return call(), None
    except BaseException as error:
        return None, error


async def _finish(value: Awaitable[Any], timeout_s: float | None, what: str) -> tuple[Any, BaseException | None]:
    """Await in a task of its own, which can be left behind; AgentTimeout where it takes too long."""
    task = asyncio.ensure_future(_boxed(value))
    try:
        await asyncio.wait({task}, timeout=timeout_s)
    finally:
        if not task.done():
            task.cancel()
    if not task.done():
        raise AgentTimeout(f"{what} took longer than {timeout_s:g} s")
    return (None, asyncio.CancelledError()) if task.cancelled() else task.result()


async def _boxed(value: Awaitable[Any]) -> tuple[Any, BaseException | None]:
    """Hand exceptions over as values: SystemExit in a task would end the event loop."""
    try:
        return await value, None
    except asyncio.CancelledError:
        raise
    except BaseException as error:
        return None, error

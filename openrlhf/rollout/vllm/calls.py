"""Calls to vLLM's core that end when the core does."""

import asyncio
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

T = TypeVar("T")

LOOK_S = 0.5  # seconds between two looks at the core


class Core(Protocol):
    """What vLLM's AsyncLLM knows of its core process."""

    @property
    def errored(self) -> bool: ...

    @property
    def dead_error(self) -> BaseException: ...


async def while_alive(core: Core, call: Coroutine[Any, Any, T]) -> T:
    """The result of a call.

    vLLM fails the requests of a core that dies, and its later calls, but never answers a call that is under way.

    Raises:
        EngineDeadError: the core has died meanwhile; within `LOOK_S` seconds of vLLM's noticing.
    """
    task = asyncio.ensure_future(call)
    try:
        while not (await asyncio.wait({task}, timeout=LOOK_S))[0]:
            if core.errored:
                raise core.dead_error
        return task.result()
    finally:
        task.cancel()

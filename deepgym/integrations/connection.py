"""Work for a client that may leave before it is done."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import Request

T = TypeVar("T")

CLIENT_LEFT = 499  # the status of an answer that nobody reads; servers' logs know the number


async def while_connected(request: Request, work: Coroutine[Any, Any, T]) -> T | None:
    """The result of `work`; None when the client left, and then `work` is cancelled. The body must have been read."""
    working = asyncio.create_task(work)
    leaving = asyncio.create_task(_client_leaves(request))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        working.cancel()
        leaving.cancel()


async def _client_leaves(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass

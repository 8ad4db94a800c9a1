"""Work for a client that may leave before it is done."""

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from fastapi import Request

logger = logging.getLogger(__name__)

T = TypeVar("T")

CLIENT_LEFT = 499  # the status of an answer that nobody reads; servers' logs know the number
_REPEATS = 8  # messages after the body that are read in search of the one that says so


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
    """Returns when the client has left, and only then.

    A server says nothing after the body but that the client left. Middleware that hands the body on under a `receive`
    of its own may add some empty parts before it passes that on; or repeat the body for ever without a pause, or raise:
    then nobody can tell, and the client counts as there.
    """
    try:
        for _ in range(1 + _REPEATS):
            if (await request.receive())["type"] == "http.disconnect":
                return
            await asyncio.sleep(0)  # a receive without a pause lets nobody else run
    except Exception:  # whatever another's `receive` raises, it does not say that the client left
        logger.debug("no word from the client", exc_info=True)
    await asyncio.Event().wait()

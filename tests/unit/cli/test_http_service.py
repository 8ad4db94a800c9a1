"""Serving an application: what becomes of a request whose client leaves."""

import asyncio
import os
import signal
from contextlib import suppress

import aiohttp
import numpy as np
import pytest
from aiohttp import web

from openrlhf.cli import http_service
from openrlhf.reward.server import make_app


async def left_requests(drop_left: bool) -> list[str]:
    """What happened to a handler whose client left after it had begun."""
    seen: list[str] = []
    begun, over = asyncio.Event(), asyncio.Event()

    async def handler(request: web.Request) -> web.Response:
        begun.set()
        try:
            # Where its end is expected, the server may take its time to notice that the client left.
            await asyncio.sleep(10 if drop_left else 0.3)
            seen.append("finished")
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise
        finally:
            over.set()
        return web.Response()

    app = web.Application()
    app.add_routes([web.get("/", handler)])
    async with served(app, drop_left) as address, aiohttp.ClientSession() as session:
        asked = asyncio.create_task(session.get(address))
        await asyncio.wait_for(begun.wait(), 10)
        asked.cancel()
        await asyncio.wait_for(over.wait(), 60)
    return seen


class served:
    """The application at an address, until SIGTERM as for the command."""

    def __init__(self, app: web.Application, drop_left: bool) -> None:
        self._app, self._drop_left = app, drop_left

    async def __aenter__(self) -> str:
        address: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        def banner(found: str) -> str:
            address.set_result(found)
            return found

        self._task = asyncio.create_task(http_service._serve(self._app, "127.0.0.1", 0, banner, self._drop_left))
        found = await asyncio.wait_for(address, 10)
        await asyncio.sleep(0)  # the signal handler is there
        return found

    async def __aexit__(self, *error: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.wait_for(self._task, 10)


@pytest.mark.parametrize(("drop_left", "fate"), [(True, "cancelled"), (False, "finished")])
async def test_a_client_that_leaves_ends_its_handler_where_that_is_asked_for(drop_left: bool, fate: str) -> None:
    assert await left_requests(drop_left) == [fate]


async def test_texts_of_a_client_that_left_are_not_scored() -> None:
    gate, busy, batches = asyncio.Event(), asyncio.Event(), []
    loop = asyncio.get_running_loop()

    def score(texts):
        batches.append(list(texts))
        loop.call_soon_threadsafe(busy.set)
        asyncio.run_coroutine_threadsafe(gate.wait(), loop).result(10)
        return np.zeros(len(texts)), [np.zeros(len(texts))]

    async with served(make_app(score, ["rm"]), drop_left=True) as address, aiohttp.ClientSession() as session:

        async def ask(text: str) -> int:
            async with session.post(f"{address}/get_reward", json={"query": [text]}) as response:
                return response.status

        async def until_waiting(count: int) -> None:
            while True:
                async with session.get(f"{address}/health") as response:
                    if (await response.json())["waiting"] == count:
                        return
                await asyncio.sleep(0.01)

        first = asyncio.create_task(ask("first"))
        await asyncio.wait_for(busy.wait(), 10)
        left, last = (asyncio.create_task(ask(text)) for text in ("left", "last"))
        await asyncio.wait_for(until_waiting(3), 10)
        left.cancel()
        with suppress(asyncio.CancelledError):
            await left
        await asyncio.wait_for(until_waiting(2), 10)
        gate.set()
        assert [await first, await last] == [200, 200]
    assert batches == [["first"], ["last"]]

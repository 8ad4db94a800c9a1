"""Serving an application until a signal."""

import asyncio
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from aiohttp import web


def serve_until_signal(
    app: "web.Application", host: str, port: int, banner: Callable[[str], str], *, drop_left: bool = False
) -> None:
    """Serve until SIGINT or SIGTERM.

    Args:
        banner: the line that says so, from the address `http://host:port`.
        drop_left: cancel the handler of a request whose client has left.

    OSError where the address cannot be opened.
    """
    asyncio.run(_serve(app, host, port, banner, drop_left))


async def _serve(app: "web.Application", host: str, port: int, banner: Callable[[str], str], drop_left: bool) -> None:
    from aiohttp import web

    runner = web.AppRunner(app, access_log=None, shutdown_timeout=5.0, handler_cancellation=drop_left)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        actual_host, actual_port = runner.addresses[0][:2]
        print(banner(f"http://{actual_host}:{actual_port}"), flush=True)
        stopped = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stopped.set)
        await stopped.wait()
    finally:
        await runner.cleanup()

"""The talk with one job's supervisor over a socket."""

import asyncio
import contextlib
import socket

from deepgym.sandbox.protocol import ResultReader

_CHUNK = 1 << 16


async def exchange(channel: socket.socket, frames: bytes, reader: ResultReader) -> None:
    """Send the job and read until its last frame, both at once: neither side waits on a full buffer.

    Returns early when the supervisor is gone; `reader` knows how far it came. `channel` must not block.
    """
    loop = asyncio.get_running_loop()
    sending = asyncio.create_task(_send(channel, frames))
    try:
        while not reader.finished:
            data = await loop.sock_recv(channel, _CHUNK)
            if not data:
                return
            reader.feed(data)
    except ConnectionError:
        return  # it ended with some of the job unread
    finally:
        sending.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await sending


async def _send(channel: socket.socket, data: bytes) -> None:
    """Errors of the channel show in the reader, which tells a broken jail from an ended one."""
    with contextlib.suppress(ConnectionError):
        await asyncio.get_running_loop().sock_sendall(channel, data)

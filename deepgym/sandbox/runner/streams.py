"""Pipes of a step, served together: nobody who writes is left waiting, and nobody makes us keep more than a cap."""

import os
import select
from collections.abc import Callable

_CHUNK = 1 << 16


class Collector:
    """The reading end of a pipe that keeps at most `cap` bytes."""

    def __init__(self, fd: int, cap: int) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self.data = bytearray()
        self.open = True
        self._cap = cap

    @property
    def full(self) -> bool:
        """True when more than the cap arrived."""
        return len(self.data) > self._cap

    def serve(self) -> None:
        """Take what is there. One byte above the cap is kept, as the sign of it; then reading stops."""
        while self.open and not self.full:
            try:
                part = os.read(self.fd, min(_CHUNK, self._cap + 1 - len(self.data)))
            except BlockingIOError:
                return
            if not part:
                self.open = False
            self.data += part

    def take(self) -> bytes:
        """What was kept, at most the cap; starts anew."""
        data = bytes(self.data[: self._cap])
        self.data.clear()
        return data


class Feeder:
    """The writing end of a pipe."""

    def __init__(self, fd: int, data: bytes, close_after: bool) -> None:
        os.set_blocking(fd, False)
        self.fd = fd
        self.open = True
        self._data = memoryview(data)
        self._close_after = close_after

    def serve(self) -> None:
        """Write what fits."""
        try:
            while self._data:
                self._data = self._data[os.write(self.fd, self._data[:_CHUNK]) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            pass  # the reader does not want the rest, which is its business
        self.finish()

    def finish(self) -> None:
        if self._close_after and self.open:
            os.close(self.fd)
        self.open = False


class HangUp(Exception):
    """The host gave the job up: its end of the channel is closed."""


def serve_until(
    done: Callable[[], bool],
    look: Callable[[], str | None],
    pause: Callable[[], float],
    *,
    readers: tuple[Collector, ...],
    writers: tuple[Feeder, ...] = (),
    wake: tuple[int, ...] = (),
    channel: int | None = None,
) -> str | None:
    """Serve the pipes until `done()`.

    Args:
        look: called between polls; names a broken limit.
        pause: seconds until `look` wants to be called next.
        wake: descriptors whose readability only ends a poll (a pidfd).
        channel: a socket whose far end hanging up raises HangUp.

    Returns:
        None, or the limit that was broken: what `look` said, or output_limit.
    """
    poll = select.poll()
    streams: dict[int, Collector | Feeder] = {}
    for reader in readers:
        poll.register(reader.fd, select.POLLIN)
        streams[reader.fd] = reader
    for writer in writers:
        poll.register(writer.fd, select.POLLOUT)
        streams[writer.fd] = writer
    for fd in wake:
        poll.register(fd, select.POLLIN)
    if channel is not None:
        poll.register(channel, select.POLLRDHUP)
    while not done():
        for fd, _ in poll.poll(1000 * pause() + 1):
            if fd == channel:
                raise HangUp
            if fd in wake:
                continue
            stream = streams[fd]
            stream.serve()
            if not stream.open:
                poll.unregister(fd)
        if any(reader.full for reader in readers):
            return "output_limit"
        if broken := look():
            return broken
    return None

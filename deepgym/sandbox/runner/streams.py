"""Pipes of a step, served together: nobody who writes is left waiting, and nobody makes us keep more than a cap."""

import os
import select
from collections.abc import Callable

from .watch import Watch

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


class Pump:
    """Serves the pipes of one process of the answer until something has happened, under the watch's eyes.

    ended: the process has ended.

    Args:
        pidfd: of the process.
        channel: a socket or the reading end of a pipe; the far end hanging up raises HangUp.
    """

    def __init__(self, readers: tuple[Collector, ...], pidfd: int, watch: Watch, channel: int) -> None:
        self.ended = False
        self._readers = readers
        self._pidfd, self._channel, self._watch = pidfd, channel, watch
        self._streams: dict[int, Collector | Feeder] = {reader.fd: reader for reader in readers}
        self._poll = select.poll()
        for fd in (*self._streams, pidfd):
            self._poll.register(fd, select.POLLIN)
        self._poll.register(channel, select.POLLRDHUP)  # POLLHUP, which a pipe has instead, is always told

    def feed(self, writer: Feeder) -> None:
        """Write now what fits, the rest while `run` runs."""
        writer.serve()
        if writer.open:
            self._streams[writer.fd] = writer
            self._poll.register(writer.fd, select.POLLOUT)

    def run(self, done: Callable[[], bool]) -> str | None:
        """Serve until `done()`; the limit that is broken (what the watch says, or output_limit), or None.

        What the process wrote before the event that made `done` true has been taken in.
        """
        while not done():
            for fd, _ in self._poll.poll(1000 * self._watch.seconds_to_next() + 1):
                self._serve(fd)
            if any(reader.full for reader in self._readers):
                return "output_limit"
            if broken := self._watch.look():
                return broken
        return None

    def _serve(self, fd: int) -> None:
        if fd == self._channel:
            raise HangUp
        if fd == self._pidfd:
            self.ended = True
            return
        stream = self._streams[fd]
        stream.serve()
        if not stream.open:
            self._poll.unregister(fd)
            del self._streams[fd]

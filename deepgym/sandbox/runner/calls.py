"""The supervisor's side of calls: one process of the answer for all calls of a job, asked one at a time."""

import os
import signal
import time
from typing import Any

from . import answer
from .confine import close_all_but, confine
from .context import Context
from .streams import Collector, Feeder, Pump

_STATUS = {answer.RETURNED: "ok", answer.RAISED: "error", answer.LEFT: "exited", answer.OUT_OF_MEMORY: "memory"}


class Caller:
    """An answer's interpreter, started at its first call and again after a program has run in between."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._pid = 0
        self._descriptors: tuple[int, ...] = ()

    def call(self, request: bytes) -> tuple[dict[str, Any], list[bytes]]:
        """Header and blobs (value as JSON, stdout, stderr) of the outcome.

        Args:
            request: JSON of {"function": ..., "args": [...], "kwargs": {...}}
        """
        if not self._pid:
            self._start()
        started, cpu_before = time.monotonic(), self._cpu()
        feed = Feeder(self._requests, answer.REQUEST.pack(len(request)) + request, close_after=False)
        self._replies.take()  # what it said unasked counts for nothing
        self._pump.feed(feed)
        broken = self._pump.run(lambda: self._has_reply() or self._pump.ended)
        status, error, value = self._outcome(broken)
        if status not in {"ok", "error"}:
            self.stop()
        header = {
            "status": status,
            "error": error,
            "cpu_ms": 1000 * max(0.0, self._cpu() - cpu_before),
            "wall_ms": 1000 * (time.monotonic() - started),
        }
        return header, [value, self._out.take(), self._err.take()]

    def stop(self) -> None:
        """End the interpreter and all its processes."""
        if self._pid:
            self._last_cpu = self._cpu()
            self._context.reaper.kill_all()
            self._pid = 0
            for fd in self._descriptors:
                os.close(fd)

    def _start(self) -> None:
        limits = self._context.setup.limits
        theirs, self._requests = os.pipe()
        replies, theirs_replies = os.pipe()
        out, theirs_out = os.pipe()
        err, theirs_err = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            self._become((theirs_out, theirs_err), theirs, theirs_replies)
        for fd in (theirs, theirs_replies, theirs_out, theirs_err):
            os.close(fd)
        self._pidfd = os.pidfd_open(self._pid)
        self._descriptors = (self._requests, replies, out, err, self._pidfd)
        self._out, self._err = Collector(out, limits.output_bytes), Collector(err, limits.output_bytes)
        self._replies = Collector(replies, answer.REPLY.size + answer.MAX_ERROR + limits.output_bytes)
        readers = (self._out, self._err, self._replies)
        self._pump = Pump(readers, self._pidfd, self._context.watch, self._context.channel)
        self._last_cpu = 0.0

    def _become(self, standard: tuple[int, int], requests: int, replies: int) -> None:
        """In the child: turn into the answer's interpreter. Never returns."""
        try:
            os.setsid()
            for number, fd in enumerate(standard, start=1):
                os.dup2(fd, number)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            close_all_but(requests, replies)
            if dict(os.environ) != self._context.setup.environment:  # else spares copying memory pages
                os.environ.clear()
                os.environ.update(self._context.setup.environment)
            confine(self._context.setup, self._context.seccomp_filter)
            signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # as Python has it: an exception, not a silent end
            answer.serve(self._context.setup, requests, replies)
        finally:
            os._exit(0)

    def _has_reply(self) -> bool:
        data = self._replies.data
        if len(data) < answer.REPLY.size:
            return False
        _, error_size, value_size = answer.REPLY.unpack_from(data)
        return len(data) >= answer.REPLY.size + error_size + value_size

    def _outcome(self, broken: str | None) -> tuple[str, str, bytes]:
        """Status, error text and value of the call that has just ended."""
        if broken:
            return broken, "", b""
        if any(stream.full for stream in (self._out, self._err, self._replies)):
            return "output_limit", "", b""
        if not self._has_reply():
            code = self._context.reaper.exit_code(self._pid)
            assert code is not None
            status = self._context.blame(code) or ("signal" if code < 0 else "exited")
            return status, f"signal {-code}" if code < 0 else f"exit code {code}", b""
        data = self._replies.take()
        state, error_size, value_size = answer.REPLY.unpack_from(data)
        start, middle = answer.REPLY.size, answer.REPLY.size + error_size
        error = data[start:middle].decode(errors="replace")
        if error_size > answer.MAX_ERROR or value_size > self._context.setup.limits.output_bytes:
            return "output_limit", "", b""
        return _STATUS.get(state, "error"), error, data[middle : middle + value_size]

    def _cpu(self) -> float:
        """Seconds of CPU of the interpreter itself; of an ended one, as last read."""
        if not self._pid:
            return self._last_cpu
        try:
            return time.clock_gettime((~self._pid << 3) | 2)
        except OSError:
            return self._last_cpu

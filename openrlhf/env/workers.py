"""A few worker processes that judge answers of a model, used from any thread. `fork_server.py` runs in them."""

import atexit
import json
import os
import queue
import struct
import subprocess
import sys
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from socket import SO_RCVTIMEO, SO_SNDTIMEO, SOL_SOCKET, socket, socketpair

from openrlhf.env import fork_server

START_TIMEOUT_S = 120.0  # importing sympy on a busy machine
REPLY_GRACE_S = 10.0  # beyond the wall limit, which the worker itself keeps
STUCK_S = 30.0  # in which a worker takes a part of a long request, or goes when it is killed


class WorkerGone(RuntimeError):
    """A worker process died, hangs, or could not start."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What judging one answer may use. CPU time decides about an answer, so that a busy machine does not."""

    cpu_s: int = 1
    wall_s: float = 20.0
    memory_bytes: int = 1 << 30


class _Process:
    def __init__(self, judge: Path, what: str) -> None:
        self._what = what
        ours, theirs = socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(Path(fork_server.__file__)), str(theirs.fileno()), str(judge)],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C at the terminal is for the training process, which then ends us
            )
        _bound(ours, STUCK_S)
        self._connection = Connection(ours.detach())
        self.pid = self._process.pid
        try:
            said = self._receive(START_TIMEOUT_S)
            if said != fork_server.READY:
                raise WorkerGone(f"{what}: {said}")
        except BaseException:
            self.end()
            raise

    def ask(self, request: dict[str, object], timeout_s: float) -> str:
        try:
            self._connection.send_bytes(json.dumps(request).encode())
        except OSError as error:
            raise WorkerGone(f"{self._what}: worker {self.pid} takes no request: {error}") from error
        return self._receive(timeout_s)

    def end(self) -> None:
        self._process.kill()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(STUCK_S)
        self._connection.close()

    def _receive(self, timeout_s: float) -> str:
        try:
            if not self._connection.poll(timeout_s):
                raise WorkerGone(f"{self._what}: worker {self.pid} did not answer within {timeout_s:g} s")
            return str(json.loads(self._connection.recv_bytes()))
        except (EOFError, OSError) as error:
            raise WorkerGone(f"{self._what}: worker {self.pid} died") from error


def _bound(ours: socket, seconds: float) -> None:
    """Let a read or write that makes no progress for so long fail: a worker that hangs does not empty its socket."""
    span = struct.pack("ll", int(seconds), int(seconds % 1 * 1e6))
    for option in (SO_SNDTIMEO, SO_RCVTIMEO):
        ours.setsockopt(SOL_SOCKET, option, span)


class WorkerPool:
    """Up to `size` workers, started when first needed, ended by `close()`, at exit, or when this process dies."""

    def __init__(self, judge: Path, what: str, size: int | None = None, limits: Limits | None = None) -> None:
        """`judge`: the file that judges (see `fork_server.py`). `what` it does, for messages."""
        self.size = size or min(4, os.cpu_count() or 1)
        self._judge = judge
        self._what = what
        self._limits = limits or Limits()
        self._places = threading.BoundedSemaphore(self.size)
        self._idle: queue.LifoQueue[_Process] = queue.LifoQueue()
        atexit.register(self.close)

    def ask(self, request: dict[str, object]) -> str:
        """The judge's reply, or `fork_server.OVERRUN`, `BROKE` or `LATE`. Blocks while all workers are busy.

        Raises:
            WorkerGone: a worker cannot start, or two in a row died over this request.
        """
        limited = request | asdict(self._limits)
        with self._places:
            try:
                return self._ask(self._take(), limited)
            except WorkerGone:  # killed from outside while idle, say: one fresh try
                return self._ask(self._start(), limited)

    def start(self) -> None:
        """Start one worker, so that a missing package is found now. WorkerGone says what to install."""
        with self._places:
            self._idle.put(self._take())

    def pids(self) -> list[int]:
        """Process ids of the idle workers."""
        return [process.pid for process in list(self._idle.queue)]

    def close(self) -> None:
        while True:
            try:
                self._idle.get_nowait().end()
            except queue.Empty:
                return

    def _start(self) -> _Process:
        return _Process(self._judge, self._what)

    def _take(self) -> _Process:
        try:
            return self._idle.get_nowait()
        except queue.Empty:
            return self._start()

    def _ask(self, process: _Process, request: dict[str, object]) -> str:
        try:
            reply = process.ask(request, self._limits.wall_s + REPLY_GRACE_S)
        except BaseException:
            process.end()
            raise
        self._idle.put(process)
        return reply

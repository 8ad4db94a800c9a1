"""A few worker processes that compare answers, used from any thread."""

import atexit
import json
import os
import queue
import subprocess
import sys
import threading
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from socket import socketpair

from openrlhf.env.math import worker

START_TIMEOUT_S = 120.0  # importing sympy on a busy machine
REPLY_GRACE_S = 10.0  # beyond the wall limit, which the worker itself keeps
MAX_KNOWN = 10_000


class WorkerGone(RuntimeError):
    """A worker process died, hangs, or could not start."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What one comparison may use. CPU time decides about an answer, so that a busy machine does not."""

    cpu_s: int = 1
    wall_s: float = 20.0
    memory_bytes: int = 1 << 30


class _Process:
    def __init__(self) -> None:
        ours, theirs = socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", str(Path(worker.__file__)), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C at the terminal is for the training process, which then ends us
            )
        self._connection = Connection(ours.detach())
        self.pid = self._process.pid
        try:
            said = self._receive(START_TIMEOUT_S)
            if said != worker.READY:
                raise WorkerGone(f"math grading: {said}")
        except BaseException:
            self.end()
            raise

    def ask(self, request: dict[str, object], timeout_s: float) -> str:
        try:
            self._connection.send_bytes(json.dumps(request).encode())
        except OSError as error:
            raise WorkerGone(f"math grading: worker {self.pid} is gone: {error}") from error
        return self._receive(timeout_s)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._connection.close()

    def _receive(self, timeout_s: float) -> str:
        try:
            if not self._connection.poll(timeout_s):
                raise WorkerGone(f"math grading: worker {self.pid} did not answer within {timeout_s:g} s")
            return str(json.loads(self._connection.recv_bytes()))
        except (EOFError, OSError) as error:
            raise WorkerGone(f"math grading: worker {self.pid} died") from error


class ComparePool:
    """Up to `size` workers, started when first needed, ended by `close()`, at exit, or when this process dies."""

    def __init__(self, size: int | None = None, limits: Limits | None = None) -> None:
        self.size = size or min(4, os.cpu_count() or 1)
        self._limits = limits or Limits()
        self._places = threading.BoundedSemaphore(self.size)
        self._idle: queue.LifoQueue[_Process] = queue.LifoQueue()
        self._known: dict[tuple[str, str], str] = {}  # the samples of one prompt often share an answer
        atexit.register(self.close)

    def compare(self, answer: str, gold: str) -> str:
        """One of `worker.REPLIES`, remembered unless LATE. Blocks while all workers are busy.

        Raises:
            WorkerGone: a worker cannot start, or two in a row died over this request.
        """
        known = self._known.get((answer, gold))
        if known is not None:
            return known
        reply = self._compare_now(answer, gold)
        if reply != worker.LATE:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[answer, gold] = reply
        return reply

    def pids(self) -> list[int]:
        """Process ids of the idle workers."""
        return [process.pid for process in list(self._idle.queue)]

    def close(self) -> None:
        while True:
            try:
                self._idle.get_nowait().end()
            except queue.Empty:
                return

    def _compare_now(self, answer: str, gold: str) -> str:
        request: dict[str, object] = {
            "answer": answer,
            "gold": gold,
            "cpu_s": self._limits.cpu_s,
            "wall_s": self._limits.wall_s,
            "memory_bytes": self._limits.memory_bytes,
        }
        with self._places:
            try:
                return self._ask(self._take(), request)
            except WorkerGone:  # killed from outside while idle, say: one fresh try
                return self._ask(_Process(), request)

    def _take(self) -> _Process:
        try:
            return self._idle.get_nowait()
        except queue.Empty:
            return _Process()

    def _ask(self, process: _Process, request: dict[str, object]) -> str:
        try:
            reply = process.ask(request, self._limits.wall_s + REPLY_GRACE_S)
        except BaseException:
            process.end()
            raise
        self._idle.put(process)
        return reply

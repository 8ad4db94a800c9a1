"""One slot: a jail with a zygote in it, which runs one job at a time."""

import asyncio
import contextlib
import os
import select
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from deepgym.exceptions import SandboxTimeoutError, SandboxUnavailableError
from deepgym.sandbox.base import Job
from deepgym.sandbox.bundle import runner_zip
from deepgym.sandbox.local import bubblewrap
from deepgym.sandbox.local.channel import exchange
from deepgym.sandbox.local.uids import UidLease
from deepgym.sandbox.protocol import ResultReader, encode_job
from deepgym.sandbox.runner.box import TMP, WORK
from deepgym.sandbox.runner.defences import Defences
from deepgym.sandbox.runner.watch import PATIENCE
from deepgym.sandbox.runner.zygote import GONE, HELLO, OPTIONS

START_SECONDS = 60.0  # for bubblewrap and an interpreter, on a busy host too
GRACE_SECONDS = 60.0  # beyond the longest a supervisor lets a job take, before its slot is given up
KILL_SECONDS = 60.0  # for a killed process to be gone, on a host with no core to spare
SETTLE_SECONDS = 5.0  # for a supervisor to end after its job
# Beside the answer's processes, the user of a jail has bubblewrap's process 1, the zygote and the supervisor.
_OWN_PROCESSES = 3


class Slot:
    """Start it, run jobs one after the other, stop it. Not for use by two tasks at once.

    Args:
        program: path of bwrap.
        python: interpreter of the answers.
        hidden: folders that no answer may see.
        uid: user to run as; None keeps the service's own, unprivileged one.
    """

    def __init__(
        self, program: str, python: str, hidden: Sequence[Path], uid: UidLease | None, defences: Defences
    ) -> None:
        self._program, self._python, self._hidden = program, python, tuple(hidden)
        self._uid, self._defences = uid, defences
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._errors = self._first = -1  # descriptors: what the jail prints, and its process 1

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    async def start(self) -> None:
        """Bring up the jail.

        Raises:
            SandboxUnavailableError: bubblewrap or the interpreter in it did not come up; says what it printed.
        """
        self._spawn()
        try:
            hello = await asyncio.wait_for(self._receive(), START_SECONDS)
        except TimeoutError:
            self.stop()
            raise SandboxUnavailableError(f"the jail did not come up within {START_SECONDS:g} s") from None
        except asyncio.CancelledError:
            self.stop()
            raise
        if hello != HELLO:
            reason = self._last_words()
            self.stop()
            raise SandboxUnavailableError(f"the jail did not come up: {reason}")
        assert self._process is not None
        self._first = _child_of(self._process.pid)

    async def run(self, job: Job) -> ResultReader:
        """Run one job; the answer and all its processes are gone when this returns, raises or is cancelled.

        What the reader holds is `cut_off` where the job's supervisor ended early; the slot is then no longer
        `alive` if the whole jail did.

        Raises:
            SandboxError: it would not end, or broke its protocol.
        """
        ours, theirs = socket.socketpair()
        reader = ResultReader(job)
        try:
            ours.setblocking(False)
            assert self._control is not None
            with theirs:
                socket.send_fds(self._control, [OPTIONS.pack(self._defences.private_processes)], [theirs.fileno()])
            limit = PATIENCE * job.limits.wall_seconds + GRACE_SECONDS
            try:
                await asyncio.wait_for(exchange(ours, self._frames(job), reader), limit)
            except TimeoutError:
                self.stop()
                raise SandboxTimeoutError(f"the sandbox gave no result within {limit:g} s") from None
        except SandboxTimeoutError:  # a TimeoutError is an OSError
            raise
        except OSError:  # the jail is gone, which the reader shows
            self.stop()
        finally:
            ours.close()  # a supervisor that still runs takes this as the order to end
            await self._settle()
        return reader

    def stop(self) -> None:
        """Kill the jail with everything in it, which is gone when this returns. Idempotent."""
        if self._process is not None:
            self._process.kill()  # process 1 of the jail dies with it, and with that everything inside
            self._process.wait(KILL_SECONDS)
            self._process = None
        if self._first >= 0:
            # A moment later than bubblewrap outside. Till then the answer's user has processes, and his id is not free.
            ended = select.poll()
            ended.register(self._first, select.POLLIN)
            ended.poll(1000 * KILL_SECONDS)
            os.close(self._first)
            self._first = -1
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._errors >= 0:
            os.close(self._errors)
            self._errors = -1

    def _spawn(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._errors = os.memfd_create("stderr")
        contents = (runner_zip(), bubblewrap.PASSWD, bubblewrap.GROUP)
        files = [_as_file(data) for data in contents]
        try:
            arguments = bubblewrap.command(
                self._program, self._python, bubblewrap.Inputs(*files), self._hidden, self._defences
            )
            uid = None if self._uid is None else self._uid.uid
            self._process = subprocess.Popen(
                arguments,
                stdin=theirs.fileno(),
                stdout=self._errors,
                stderr=self._errors,
                pass_fds=files,
                user=uid,
                group=uid,
                extra_groups=None if uid is None else [],
                cwd="/",
            )
        except OSError as error:
            raise SandboxUnavailableError(f"cannot start {self._program}: {error}") from error
        finally:
            theirs.close()
            for fd in files:
                os.close(fd)
        ours.setblocking(False)
        self._control = ours

    def _frames(self, job: Job) -> bytes:
        nproc = job.limits.processes + _OWN_PROCESSES
        return b"".join(encode_job(job, work=WORK, tmp=TMP, nproc=nproc, defences=self._defences))

    async def _settle(self) -> None:
        """Wait for the zygote's word that the job's namespace is empty; without it the jail goes."""
        if not self.alive:
            return
        try:
            word = await asyncio.wait_for(self._receive(), SETTLE_SECONDS)
        except TimeoutError:
            word = b""
        except asyncio.CancelledError:
            self.stop()
            raise
        if word != GONE:
            self.stop()

    async def _receive(self) -> bytes:
        """One message of the zygote; empty when it is gone."""
        assert self._control is not None
        try:
            return await asyncio.get_running_loop().sock_recv(self._control, 1)
        except ConnectionError:
            return b""

    def _last_words(self) -> str:
        """The end of what bubblewrap and the zygote printed."""
        size = os.fstat(self._errors).st_size
        text = os.pread(self._errors, 2000, max(0, size - 2000)).decode(errors="replace")
        lines = text.strip().splitlines()
        return lines[-1] if lines else "no message"


def _child_of(pid: int) -> int:
    """A descriptor of its only child, which is readable once that has ended; -1 where there is none."""
    with contextlib.suppress(OSError, ValueError):  # it ended meanwhile, or the kernel is older than 5.3
        return os.pidfd_open(int(Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii")))
    return -1


def _as_file(data: bytes) -> int:
    """A descriptor to read `data` from, which lives in memory only."""
    fd = os.memfd_create("input")
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd

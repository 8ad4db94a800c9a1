"""Answers as plain processes of the service's own user: for a machine without bubblewrap whose owner said so in words.

Resource limits and the system call filter still hold (so there is no network), and the processes of an answer are
ended with it. Files do not: an answer reads and writes whatever this user may.
"""

import asyncio
import contextlib
import socket
import sys
import tempfile
from pathlib import Path

from deepgym.exceptions import SandboxError, SandboxTimeoutError, SandboxUnavailableError
from deepgym.sandbox.base import Job, JobResult
from deepgym.sandbox.bundle import runner_zip
from deepgym.sandbox.local.channel import exchange
from deepgym.sandbox.protocol import ENVIRONMENT, ResultReader, encode_job
from deepgym.sandbox.runner.watch import PATIENCE

NOTE = "NOT ISOLATED: the answer ran as a plain process of this user"
_GRACE_SECONDS = 60.0


class UnisolatedSandbox:
    """Runs each job in a process tree of its own, and in no jail.

    Args:
        slots: jobs at once.
    """

    name = "local"
    isolated = False

    def __init__(self, slots: int) -> None:
        self._places = asyncio.Semaphore(slots)
        self._running: set[asyncio.subprocess.Process] = set()
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    async def start(self) -> None:
        """Write the runner where an interpreter can read it. Raises SandboxUnavailableError."""
        if sys.platform != "linux":
            raise SandboxUnavailableError(f"the runner needs Linux, and this is {sys.platform}")
        self._folder = tempfile.TemporaryDirectory(prefix="deepgym-")
        self._runner().write_bytes(runner_zip())

    async def run(self, job: Job) -> JobResult:
        """See `deepgym.sandbox.base.Sandbox`."""
        if self._folder is None:
            raise SandboxError("the sandbox is not running: await start() first, and do not use it after close()")
        async with self._places:
            with tempfile.TemporaryDirectory(prefix="deepgym-work-", ignore_cleanup_errors=True) as work:
                return await self._run_in(work, job)

    async def close(self) -> None:
        """Kill what runs. Idempotent."""
        for process in self._running:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _runner(self) -> Path:
        assert self._folder is not None
        return Path(self._folder.name) / "runner.zip"

    async def _run_in(self, work: str, job: Job) -> JobResult:
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        reader = ResultReader(job)
        limit = PATIENCE * job.limits.wall_seconds + _GRACE_SECONDS
        with theirs:
            process = await self._start_runner(work, theirs)
        try:
            frames = b"".join(encode_job(job, work=work, tmp=work, nproc=None, own_disk=False))
            await asyncio.wait_for(exchange(ours, frames, reader), limit)
        except TimeoutError:
            raise SandboxTimeoutError(f"the runner gave no result within {limit:g} s") from None
        finally:
            ours.close()  # a runner that still works takes this as the order to end its tree and itself
            await self._end(process)
        return reader.result(NOTE)

    async def _start_runner(self, work: str, channel: socket.socket) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-sPB", str(self._runner()), "socket"),
            stdin=channel.fileno(),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            env={**ENVIRONMENT, "HOME": work, "TMPDIR": work},
            cwd=work,
        )
        self._running.add(process)
        return process

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        try:
            await asyncio.wait_for(process.wait(), _GRACE_SECONDS)
        except (TimeoutError, asyncio.CancelledError):
            process.kill()
            raise
        finally:
            self._running.discard(process)

"""The local backend: as many bubblewrap jails as jobs may run at once."""

import asyncio
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from deepgym.exceptions import SandboxError, SandboxUnavailableError
from deepgym.sandbox.base import Job, JobResult
from deepgym.sandbox.local import bubblewrap
from deepgym.sandbox.local.slot import Slot
from deepgym.sandbox.local.uids import UidLease, first_uid
from deepgym.sandbox.protocol import ALL_DEFENCES, ResultReader
from deepgym.sandbox.runner.defences import Defences

INSTALL_HINT = "apt-get install -y bubblewrap"
NOT_ROOT_NOTE = "not root: the answer ran as the service's own user; limits by rlimits and a watchdog"


class LocalSandbox:
    """Runs each job in a process of its own, forked inside a bubblewrap jail.

    Args:
        slots: jobs at once; by default one per core, since answers compute. More only wait for cores.
        python: interpreter of the answers; by default the system's.
        hidden: folders with expected outputs (user environments); answers see them empty where they see them at all.
        defences: less than all of them in tests only.

    Raises:
        SandboxUnavailableError: bubblewrap is not installed, or this machine does not let it make a jail.
    """

    name = "local"
    isolated = True

    def __init__(
        self,
        slots: int | None = None,
        *,
        python: str | None = None,
        hidden: Sequence[Path] = (),
        defences: Defences = ALL_DEFENCES,
    ) -> None:
        self.slots = slots or len(os.sched_getaffinity(0))
        if self.slots < 1:
            raise ValueError(f"slots is {slots}; at least 1 is needed")
        self._program = find_bubblewrap()
        bubblewrap.probe(self._program, first_uid() if os.geteuid() == 0 else None)
        self._python = python or bubblewrap.default_python()
        self._hidden = tuple(path.resolve() for path in hidden)
        self._defences = defences
        self._idle: asyncio.LifoQueue[Slot] = asyncio.LifoQueue()
        self._all: list[Slot] = []
        self._leases: list[UidLease] = []
        self._closed = False
        self._notes = () if os.geteuid() == 0 else (NOT_ROOT_NOTE,)

    async def start(self) -> None:
        """Bring up the first jail, and the others as they are needed.

        Raises:
            SandboxUnavailableError: this machine does not let bubblewrap make a jail.
        """
        try:
            for _ in range(self.slots):
                self._add_slot()
            await self._all[-1].start()
        except BaseException as error:
            self._stop()
            self._all, self._idle = [], asyncio.LifoQueue()  # so that it can be tried again
            if isinstance(error, OSError):
                raise SandboxUnavailableError(f"no user ids for the jails: {error}") from error
            raise

    def _add_slot(self) -> None:
        lease = UidLease() if os.geteuid() == 0 else None
        if lease is not None:
            self._leases.append(lease)
        slot = Slot(self._program, self._python, self._hidden, lease, self._defences)
        self._all.append(slot)
        self._idle.put_nowait(slot)

    async def run(self, job: Job) -> JobResult:
        """See `deepgym.sandbox.base.Sandbox`; waits for a free slot."""
        if not self._all or self._closed:
            raise SandboxError("the local sandbox is not running: await start() first, and do not use it after close()")
        slot = await self._idle.get()
        try:
            reader = await self._run(slot, job)
            if reader.cut_off and not slot.alive:
                # The whole jail died: before the job, or by the host's hand. An answer that did it does it again.
                reader = await self._run(slot, job)
        finally:
            self._idle.put_nowait(slot)
        if self._closed:
            raise SandboxError("the local sandbox was closed while the job ran")
        return reader.result(*self._notes)

    async def _run(self, slot: Slot, job: Job) -> ResultReader:
        if self._closed:
            raise SandboxError("the local sandbox was closed while the job waited for a jail")
        if not slot.alive:
            slot.stop()
            await slot.start()
        return await slot.run(job)

    async def close(self) -> None:
        """Kill every jail and give the user ids back. Idempotent."""
        self._closed = True
        self._stop()

    def _stop(self) -> None:
        for slot in self._all:
            slot.stop()
        for lease in self._leases:
            lease.release()
        self._leases.clear()


def find_bubblewrap() -> str:
    """Path of bwrap. Raises SandboxUnavailableError where it is not installed."""
    program = shutil.which("bwrap", path=os.environ.get("PATH", "") + ":/usr/bin:/usr/local/bin")
    if program is None:
        raise SandboxUnavailableError(
            f"bubblewrap (bwrap) is not installed, and without it answers would run unprotected: {INSTALL_HINT}"
        )
    return program

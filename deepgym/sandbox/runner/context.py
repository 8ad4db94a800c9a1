"""What every step of one job shares."""

import os
import resource
from dataclasses import dataclass

from . import cgroup
from .reaper import Reaper
from .setup import Setup
from .watch import Watch

_SIGXCPU, _SIGXFSZ = 24, 25


@dataclass(slots=True)
class Context:
    """The supervisor's tools for one job."""

    setup: Setup
    watch: Watch
    reaper: Reaper
    seccomp_filter: bytes | None
    channel: int  # the socket or pipe that the job comes by; when the host hangs up, the job ends
    own_group: bool  # the control group that is shown, if one is, holds this job and nothing else

    def reaped_cpu(self) -> float:
        """Seconds of CPU of all processes that have ended."""
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    def blame(self, exit_code: int) -> str | None:
        """The limit that explains why a process failed, where one does."""
        if exit_code == 0:
            return None
        limits = self.setup.limits
        if exit_code == -_SIGXCPU or self.reaped_cpu() >= limits.cpu_seconds:
            return "timeout"
        if self.own_group and cgroup.out_of_memory_kills():
            return "memory"
        if exit_code == -_SIGXFSZ or self._disk_is_full():
            return "disk_limit"
        if self.watch.peak_tasks >= limits.processes:
            return "process_limit"
        return None

    def _disk_is_full(self) -> bool:
        if not self.setup.own_disk:
            return False
        space = os.statvfs(self.setup.work)
        return space.f_bavail == 0 or space.f_favail == 0

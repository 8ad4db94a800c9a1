"""What an answer's process tree uses: CPU time, memory, processes, and time spent waiting for a core."""

import os
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass

from .setup import JailLimits

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICK = os.sysconf("SC_CLK_TCK")
FIRST_LOOK, LONGEST_PAUSE = 0.005, 0.020  # seconds
# An answer that got no core for this many times its wall limit is given up.
PATIENCE = 2.0


@dataclass(slots=True)
class _Task:
    """One process as last seen."""

    cpu: float  # seconds, its own
    children_cpu: float  # seconds, of children it waited for
    waited: float  # seconds all its threads stood in the run queue


class Watch:
    """Samples the processes of one job and says which limit is broken.

    With a PID namespace of its own, every process in /proc beside the supervisor belongs to the answer, also one
    that ran away from its parent. Without one, the supervisor is a subreaper and the tree hangs below it.

    Args:
        proc: descriptor of a /proc that shows all processes, or None where there is none (then no sample is taken
            and only rlimits hold).
        whole_namespace: every other process in `proc` is the answer's.
    """

    def __init__(self, limits: JailLimits, proc: int | None, whole_namespace: bool) -> None:
        self._limits = limits
        self._proc = proc
        self._whole_namespace = whole_namespace
        self._me = os.getpid()
        self._tasks: dict[int, _Task] = {}
        self._gone_cpu = 0.0
        self._start = self._last = time.monotonic()
        self._reaped_before = _reaped_cpu()
        self._pause = FIRST_LOOK
        self._next = self._start + FIRST_LOOK
        self.starved = 0.0  # seconds in which a process stood waiting for a core
        self.peak_memory = 0
        self.peak_tasks = 0
        self._memory = 0

    def seconds_to_next(self) -> float:
        return max(0.0, self._next - time.monotonic())

    def wall(self) -> float:
        return time.monotonic() - self._start

    def look(self) -> str | None:
        """Take a sample when one is due; return the limit that is broken: timeout, memory, process_limit, starved."""
        now = time.monotonic()
        if now < self._next:
            return None
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        self._sample(now)
        self._next = time.monotonic() + self._pause
        return self._broken(now)

    def _broken(self, now: float) -> str | None:
        limits, elapsed = self._limits, now - self._start
        if self.cpu() >= limits.cpu_seconds:
            return "timeout"
        if self._memory > limits.memory_bytes:
            return "memory"
        if self.peak_tasks > 2 * limits.processes + 8:  # where RLIMIT_NPROC did not hold
            return "process_limit"
        if elapsed - self.starved >= limits.wall_seconds:
            return "timeout"
        if elapsed >= PATIENCE * limits.wall_seconds:
            return "starved"
        return None

    def cpu(self) -> float:
        """Seconds of CPU of the whole tree so far, as of the last sample.

        The larger of two counts. The kernel's: what live processes used, and what they and the supervisor inherited
        from children they waited for. Ours: what each process had used when last seen, which also holds where
        children are never waited for.
        """
        alive = sum(task.cpu for task in self._tasks.values())
        inherited = sum(task.children_cpu for task in self._tasks.values()) + _reaped_cpu() - self._reaped_before
        return max(alive + inherited, alive + self._gone_cpu)

    def final_cpu(self) -> float:
        """Seconds of CPU of the tree once every process of it has ended."""
        last_seen = sum(task.cpu for task in self._tasks.values()) + self._gone_cpu
        return max(_reaped_cpu() - self._reaped_before, last_seen)

    def peak(self) -> int:
        """Bytes: the largest sample, or the largest single process that has ended, whichever is more."""
        return max(self.peak_memory, 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)

    def _sample(self, now: float) -> None:
        if self._proc is None:
            return
        seen: dict[int, _Task] = {}
        memory = threads = 0
        longest_wait = 0.0
        for pid in self._members():
            try:
                resident, count, task = self._measure(pid)
            except (OSError, ValueError, IndexError):
                continue  # it ended while being looked at
            before = self._tasks.get(pid)
            longest_wait = max(longest_wait, task.waited - (before.waited if before else 0.0))
            seen[pid] = task
            memory += resident
            threads += count
        self._gone_cpu += sum(task.cpu for pid, task in self._tasks.items() if pid not in seen)
        self.starved += min(max(longest_wait, 0.0), now - self._last)
        self._tasks, self._last = seen, now
        if memory > self._limits.memory_bytes:
            memory = sum(self._proportional(pid) for pid in seen)  # pages shared by a fork count once
        self._memory = memory
        self.peak_memory = max(self.peak_memory, memory)
        self.peak_tasks = max(self.peak_tasks, threads)

    def _members(self) -> Iterator[int]:
        if self._whole_namespace:
            assert self._proc is not None
            yield from (int(name) for name in os.listdir(self._proc) if name.isdecimal() and int(name) != self._me)
        else:
            yield from descendants(self._me)

    def _read(self, name: str) -> bytes:
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._proc)
        try:
            return os.read(fd, 4096)
        finally:
            os.close(fd)

    def _measure(self, pid: int) -> tuple[int, int, _Task]:
        resident = int(self._read(f"{pid}/statm").split()[1]) * _PAGE
        # The name in parentheses may hold anything; what follows it is numbers. Field 3 comes first.
        fields = self._read(f"{pid}/stat").rpartition(b")")[2].split()
        children_cpu = (int(fields[13]) + int(fields[14])) / _TICK
        threads = int(fields[17])
        cpu = time.clock_gettime(_cpu_clock_of(pid))
        waited = self._waited(pid, threads)
        return resident, threads, _Task(cpu, children_cpu, waited)

    def _waited(self, pid: int, threads: int) -> float:
        try:
            if threads == 1:
                return int(self._read(f"{pid}/schedstat").split()[1]) / 1e9
            folder = os.open(f"{pid}/task", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._proc)
            try:
                names = os.listdir(folder)
            finally:
                os.close(folder)
            return max(int(self._read(f"{pid}/task/{name}/schedstat").split()[1]) for name in names) / 1e9
        except FileNotFoundError:
            return 0.0  # a kernel without CONFIG_SCHED_INFO: nothing is known, nothing is forgiven

    def _proportional(self, pid: int) -> int:
        """Bytes of this process with shared pages divided among their users; resident bytes where that is hidden."""
        try:
            for line in self._read(f"{pid}/smaps_rollup").splitlines():
                if line.startswith(b"Pss:"):
                    return int(line.split()[1]) * 1024
            return 0
        except PermissionError:
            return int(self._read(f"{pid}/statm").split()[1]) * _PAGE
        except (OSError, ValueError, IndexError):
            return 0  # it ended


def _cpu_clock_of(pid: int) -> int:
    """The CPU clock of another process, all its threads: what clock_getcpuclockid(3) returns."""
    return (~pid << 3) | 2


def _reaped_cpu() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def descendants(root: int) -> list[int]:
    """All processes below `root`, by /proc's own list of children."""
    found: list[int] = []
    todo = [root]
    while todo:
        pid = todo.pop()
        try:
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                    children = [int(child) for child in file.read().split()]
                found += children
                todo += children
        except OSError:
            continue  # it ended
    return found

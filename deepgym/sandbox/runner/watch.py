"""What an answer's process tree uses: CPU time, memory, processes, and time spent waiting for a core."""

import os
import resource
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass

from .setup import JailLimits

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICK = os.sysconf("SC_CLK_TCK")
PAUSE = 0.020  # seconds between looks
_PAUSE_WAITING = 0.25  # seconds between looks at how long the tree stood in the run queue
# An answer that got no core for this many times its wall limit is given up.
PATIENCE = 2.0
# The most that a socket may hold, in send buffers, by its kind in /proc/net/unix: what one sender has under way, a
# message above that, and the kernel's rounding of each. For datagrams eleven messages (net.unix.max_dgram_qlen is 10,
# and one more fits), each of a sender that may be closed by now. Measured: 1.1, 1.7 and 13.7.
_STREAM, _DATAGRAMS, _PACKETS = b"0001", b"0002", b"0005"
_BUFFERS_HELD = {_STREAM: 1.25, _PACKETS: 2.0, _DATAGRAMS: 15.0}


@dataclass(slots=True)
class _Task:
    """One process as last seen."""

    cpu: float  # seconds, its own
    children_cpu: float  # seconds, of children it waited for
    runnable: bool  # it runs, or stands waiting for a core


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
        self._sent = _send_buffer()
        self._sockets_before = self._sockets() if whole_namespace else 0
        self._tasks: dict[int, _Task] = {}
        self._gone_cpu = 0.0
        self._start = self._last_waiting = time.monotonic()
        self._waiting: dict[int, float] = {}  # pid -> seconds in the run queue, at the last look
        self._wanted = 0.0  # seconds since then in which some process was runnable
        self._cpu_then = 0.0  # seconds of CPU of the whole tree, at the last look
        self._last_sample = self._start
        self._reaped_before = _reaped_cpu()
        self._next = self._start + PAUSE
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
        self._sample()
        if any(task.runnable for task in self._tasks.values()):
            self._wanted += now - self._last_sample
        self._last_sample = now
        if now - self._last_waiting >= _PAUSE_WAITING:
            self._look_at_waiting(now)
        self._next = time.monotonic() + PAUSE
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

    def _sample(self) -> None:
        if self._proc is None:
            return
        seen: dict[int, _Task] = {}
        memory = threads = 0
        for pid in self._members():
            try:
                resident, count, task = self._measure(pid)
            except (OSError, ValueError, IndexError):
                continue  # it ended while being looked at
            seen[pid] = task
            memory += resident
            threads += count
        self._gone_cpu += sum(task.cpu for pid, task in self._tasks.items() if pid not in seen)
        self._tasks = seen
        sockets = max(0, self._sockets() - self._sockets_before) if self._whole_namespace else 0
        if memory + sockets > self._limits.memory_bytes:
            memory = sum(self._proportional(pid) for pid in seen)  # pages shared by a fork count once
        self._memory = memory + sockets
        self.peak_memory = max(self.peak_memory, self._memory)
        self.peak_tasks = max(self.peak_tasks, threads)

    def _members(self) -> Iterator[int]:
        if self._whole_namespace:
            assert self._proc is not None
            yield from (int(name) for name in os.listdir(self._proc) if name.isdecimal() and int(name) != self._me)
        else:
            yield from descendants(self._me)

    def _sockets(self) -> int:
        """Bytes that the Unix sockets of this network namespace may hold, which no process's size shows.

        The kernel's list has those too that are in no process's table: sent in a message, or not yet accepted.
        """
        try:
            with open("net/unix", "rb", opener=self._open) as file:
                kinds = [(*line.split()[4:5], b"")[0] for line in file.readlines()[1:]]
        except OSError:
            return 0  # no /proc is shown
        # A name with a line end in it makes lines of its own, and costs its owner what they seem to be.
        return int(self._sent * sum(_BUFFERS_HELD.get(kind, 1.0) for kind in kinds))

    def _open(self, name: str, flags: int) -> int:
        if self._proc is None:
            raise FileNotFoundError(name)
        return os.open(name, flags | os.O_CLOEXEC, dir_fd=self._proc)

    def _read(self, name: str) -> bytes:
        fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=self._proc)
        try:
            return os.read(fd, 4096)
        finally:
            os.close(fd)

    def _measure(self, pid: int) -> tuple[int, int, _Task]:
        # The name in parentheses may hold anything; what follows it is numbers. Field 3 comes first.
        fields = self._read(f"{pid}/stat").rpartition(b")")[2].split()
        children_cpu = (int(fields[13]) + int(fields[14])) / _TICK
        threads, resident = int(fields[17]), int(fields[21]) * _PAGE
        return resident, threads, _Task(time.clock_gettime(_cpu_clock_of(pid)), children_cpu, fields[0] == b"R")

    def _look_at_waiting(self, now: float) -> None:
        """Add how long the tree stood waiting for a core since the last look, by the larger of two counts.

        The kernel's: the longest that one thread stood in the run queue (new ones: ever). Ours: time in which a process
        wanted a core less what the tree computed, which also holds for processes that came and went in between and took
        their count with them.
        """
        waiting = {pid: self._waited(pid) for pid in self._tasks}
        longest = max((waited - self._waiting.get(pid, 0.0) for pid, waited in waiting.items()), default=0.0)
        cpu = self.cpu()
        longest = max(longest, self._wanted - (cpu - self._cpu_then))
        self.starved += min(max(longest, 0.0), now - self._last_waiting)
        self._waiting, self._last_waiting, self._wanted, self._cpu_then = waiting, now, 0.0, cpu

    def _waited(self, pid: int) -> float:
        """Seconds: of the process's threads, the one that waited most."""
        try:
            folder = os.open(f"{pid}/task", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self._proc)
            try:
                names = os.listdir(folder)
            finally:
                os.close(folder)
            return max(int(self._read(f"{pid}/task/{name}/schedstat").split()[1]) for name in names) / 1e9
        except OSError:
            return 0.0  # it ended, or a kernel without CONFIG_SCHED_INFO: nothing is known, nothing is forgiven

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


def _send_buffer() -> int:
    """Bytes that a socket may have under way, as this machine has it (net.core.wmem_default)."""
    with socket.socket(socket.AF_UNIX) as one:
        return one.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)


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

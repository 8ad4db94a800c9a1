"""Takes an answer's process, just forked, out of the supervisor's reach and under its limits."""

import os
import resource
import signal

from . import kernel
from .setup import JailLimits, Setup

MIB = 1 << 20
# RLIMIT_DATA holds a process to the memory limit by itself (its allocations fail). Address space may be larger:
# every thread reserves some, but it has to end somewhere, because mapped space costs page tables.
_SPARE_ADDRESS_SPACE = 2048 * MIB
_STACK = 8 * MIB


def confine(setup: Setup, seccomp_filter: bytes | None) -> None:
    """Limits, then the filter. Call it in the child, before any of the answer's code."""
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # the supervisor is not; the answer may look at itself
    _be_first_out_of_memory()
    if setup.defences.rlimits:
        _limit(setup.limits, setup.nproc)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    if seccomp_filter is not None:
        kernel.install_filter(seccomp_filter)


def _be_first_out_of_memory() -> None:
    try:
        fd = os.open("/proc/self/oom_score_adj", os.O_WRONLY)
    except FileNotFoundError:
        return  # a jail without /proc
    os.write(fd, b"1000")
    os.close(fd)


def _limit(limits: JailLimits, nproc: int | None) -> None:
    cpu = int(limits.cpu_seconds) + 1  # the supervisor stops the whole tree earlier; this is for when it cannot
    values = {
        resource.RLIMIT_CPU: cpu,
        resource.RLIMIT_DATA: limits.memory_bytes,
        resource.RLIMIT_AS: 2 * limits.memory_bytes + _SPARE_ADDRESS_SPACE,
        resource.RLIMIT_FSIZE: limits.disk_bytes,
        resource.RLIMIT_NOFILE: limits.open_files,
        # 1, not 0: a core pattern that pipes into a program of the host runs it unless the limit is exactly 1.
        resource.RLIMIT_CORE: 1,
        resource.RLIMIT_MEMLOCK: 64 * 1024,
        resource.RLIMIT_MSGQUEUE: 0,
        resource.RLIMIT_SIGPENDING: 256,
        resource.RLIMIT_NICE: 0,
        resource.RLIMIT_RTPRIO: 0,
    }
    if nproc is not None:
        values[resource.RLIMIT_NPROC] = nproc
    for kind, value in values.items():
        _lower(kind, value, value)
    _lower(resource.RLIMIT_STACK, _STACK, limits.memory_bytes)


def _lower(kind: int, soft: int, hard: int) -> None:
    """Set a limit, under the one this process already has."""
    _, ceiling = resource.getrlimit(kind)
    if ceiling != resource.RLIM_INFINITY:
        soft, hard = min(soft, ceiling), min(hard, ceiling)
    resource.setrlimit(kind, (soft, hard))


def close_all_but(*keep: int) -> None:
    """Close every descriptor above 2 that is not named."""
    start = 3
    for fd in sorted(fd for fd in keep if fd > 2):
        os.closerange(start, fd)
        start = fd + 1
    os.closerange(start, max(resource.getrlimit(resource.RLIMIT_NOFILE)[0], 1 << 16))

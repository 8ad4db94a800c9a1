"""Linux calls that Python does not wrap: process flags, capabilities, mounts, namespaces."""

import ctypes
import os
import signal
import struct

_LIBC = ctypes.CDLL(None, use_errno=True)
# Keeps the interpreter lock while it runs, so that a raw clone happens in one piece.
_LIBC_LOCKED = ctypes.PyDLL(None, use_errno=True)

PR_SET_DUMPABLE, PR_SET_SECCOMP = 4, 22
PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS, PR_CAP_AMBIENT = 36, 38, 47
_PR_CAP_AMBIENT_CLEAR_ALL = 4
_SECCOMP_MODE_FILTER = 2
_CAPABILITY_VERSION_3 = 0x20080522

CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWPID = 0x00020000, 0x08000000, 0x20000000
MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_BIND, MS_REC, MS_PRIVATE = 2, 4, 8, 4096, 16384, 1 << 18
_SYS_CLONE = {"x86_64": 56, "aarch64": 220}


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def prctl(option: int, *values: int) -> None:
    """Raises OSError as all functions here do."""
    arguments = [ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4]]
    _check(_LIBC.prctl(ctypes.c_int(option), *arguments), f"prctl({option})")


def drop_capabilities() -> None:
    """Give up every capability, and (no_new_privs) any way to gain one by running a file."""
    prctl(PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    header = struct.pack("Ii", _CAPABILITY_VERSION_3, 0)
    _check(_LIBC.capset(header, bytes(24)), "capset")
    prctl(PR_SET_NO_NEW_PRIVS, 1)


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_char_p))


def install_filter(program: bytes) -> None:
    """Put a seccomp filter (an array of struct sock_filter) on this process and all it will start."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)
    record = _Program(len(program) // 8, program)
    result = _LIBC.prctl(PR_SET_SECCOMP, ctypes.c_ulong(_SECCOMP_MODE_FILTER), ctypes.byref(record))
    _check(result, "seccomp filter")


def mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    data = options.encode() or None
    result = _LIBC.mount(source.encode(), target.encode(), kind and kind.encode(), ctypes.c_ulong(flags), data)
    _check(result, f"mount {kind or 'bind'} on {target}")


def unmount(target: str) -> None:
    _check(_LIBC.umount2(target.encode(), 2), f"unmount {target}")  # 2: MNT_DETACH


def fork_into(flags: int) -> int:
    """os.fork(), with the child in new namespaces (`CLONE_NEW*`); with CLONE_NEWPID it is process 1 there.

    One clone, where unshare and fork would need a process in between for each run: a process can leave its
    children's PID namespace only once.
    """
    ctypes.pythonapi.PyOS_BeforeFork()
    number = ctypes.c_long(_SYS_CLONE[os.uname().machine])
    zero = ctypes.c_ulong(0)
    pid = _LIBC_LOCKED.syscall(number, ctypes.c_ulong(flags | signal.SIGCHLD), zero, zero, zero, zero)
    if pid == 0:
        ctypes.pythonapi.PyOS_AfterFork_Child()
        return 0
    error = ctypes.get_errno()
    ctypes.pythonapi.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError(error, f"clone: {os.strerror(error)}")
    return int(pid)

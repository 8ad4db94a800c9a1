"""The system call filter of an answer's processes, as BPF instructions made here.

An allow-list: what it does not name does not exist (ENOSYS), so a new kernel's new calls are closed from the start.
The rules that look at arguments:

    clone        no new namespaces (clone3, whose flags a filter cannot see, does not exist: libc falls back to clone)
    socket       Unix sockets only
    mmap         no anonymous shared memory, which outlives its mapping uncounted; no huge pages
    setsockopt   a buffer's size is taken and left as it is: what sockets hold is no process's memory
    prlimit64    own limits only: a process of the same user could choke the supervisor
    personality  the default one only

Source: Linux Documentation/userspace-api/seccomp_filter.rst.
"""

import errno
import os
import struct
from collections.abc import Iterable

from . import syscalls

_ALLOW, _KILL_PROCESS, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_AUDIT_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# Instruction codes: load a word of the call's record, jump if equal / at least / any bit set, return.
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCH, _FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data

# CLONE_NEW{NS,CGROUP,UTS,IPC,USER,PID,NET}; time namespaces can be made with unshare and clone3 only
_NAMESPACES = 0x00020000 | 0x02000000 | 0x04000000 | 0x08000000 | 0x10000000 | 0x20000000 | 0x40000000
_AF_UNIX = 1
_MAP_SHARED, _MAP_ANONYMOUS, _MAP_HUGETLB = 0x01, 0x20, 0x40000  # MAP_SHARED_VALIDATE is 3, MAP_PRIVATE 2
_QUERY_PERSONALITY = 0xFFFFFFFF
_SOL_SOCKET = 1
_SO_SNDBUF, _SO_RCVBUF, _SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 7, 8, 32, 33

Instruction = tuple[int, int, int, int]  # code, jump if true, jump if false, constant


def build(machine: str | None = None) -> bytes:
    """The filter for this machine (or the named one), an array of struct sock_filter.

    Raises:
        OSError: the architecture has no table in syscalls.py.
    """
    machine = machine or os.uname().machine
    if machine not in syscalls.known_machines():
        raise OSError(errno.ENOTSUP, f"no system call table for {machine!r}, only {syscalls.known_machines()}")
    program: list[Instruction] = [
        (_LOAD, 0, 0, _ARCH),
        (_EQUAL, 1, 0, _AUDIT_ARCH[machine]),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER),
    ]
    conditions = _conditions()
    for name, number in syscalls.checked(machine).items():
        body = conditions[name]
        program += [(_EQUAL, 0, len(body), number), *body]
    program += _returns(syscalls.allowed(machine).values(), _ALLOW)
    program += _returns(syscalls.ignored(machine).values(), _ERRNO)
    program += _returns(syscalls.refused(machine).values(), _ERRNO | errno.EPERM)
    program.append((_RETURN, 0, 0, _ERRNO | errno.ENOSYS))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in program)


def _conditions() -> dict[str, list[Instruction]]:
    """Name -> the instructions that decide about this call; each list ends in returns."""
    unix_only = [
        _load_argument(0),
        (_EQUAL, 0, 1, _AF_UNIX),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _ERRNO | errno.EAFNOSUPPORT),
    ]
    return {
        "clone": [
            _load_argument(0),
            (_ANY_BIT, 1, 0, _NAMESPACES),
            (_RETURN, 0, 0, _ALLOW),
            (_RETURN, 0, 0, _ERRNO | errno.EPERM),
        ],
        "socket": unix_only,
        "socketpair": unix_only,
        "mmap": [
            _load_argument(3),
            (_ANY_BIT, 3, 0, _MAP_HUGETLB),
            (_ANY_BIT, 0, 1, _MAP_ANONYMOUS),
            (_ANY_BIT, 1, 0, _MAP_SHARED),
            (_RETURN, 0, 0, _ALLOW),
            (_RETURN, 0, 0, _ERRNO | errno.EPERM),
        ],
        "setsockopt": [
            _load_argument(1),
            (_EQUAL, 0, 5, _SOL_SOCKET),
            _load_argument(2),
            (_EQUAL, 4, 0, _SO_SNDBUF),
            (_EQUAL, 3, 0, _SO_RCVBUF),
            (_EQUAL, 2, 0, _SO_SNDBUFFORCE),
            (_EQUAL, 1, 0, _SO_RCVBUFFORCE),
            (_RETURN, 0, 0, _ALLOW),
            (_RETURN, 0, 0, _ERRNO),  # success, without effect
        ],
        "prlimit64": [
            _load_argument(0),
            (_EQUAL, 0, 1, 0),
            (_RETURN, 0, 0, _ALLOW),
            (_RETURN, 0, 0, _ERRNO | errno.EPERM),
        ],
        "personality": [
            _load_argument(0),
            (_EQUAL, 1, 0, 0),
            (_EQUAL, 0, 1, _QUERY_PERSONALITY),
            (_RETURN, 0, 0, _ALLOW),
            (_RETURN, 0, 0, _ERRNO | errno.EPERM),
        ],
    }


def _load_argument(index: int) -> Instruction:
    """The low half of an argument, which holds every flag and number that the rules ask for."""
    return (_LOAD, 0, 0, _FIRST_ARGUMENT + 8 * index)


def _returns(numbers: Iterable[int], action: int) -> list[Instruction]:
    """Return `action` for these call numbers, one comparison pair for each unbroken range of them."""
    program: list[Instruction] = []
    for low, high in _ranges(sorted(set(numbers))):
        # number >= low and not number >= high + 1; both operands are unsigned
        program += [(_AT_LEAST, 0, 2, low), (_AT_LEAST, 1, 0, high + 1), (_RETURN, 0, 0, action)]
    return program


def _ranges(numbers: list[int]) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and ranges[-1][1] == number - 1:
            ranges[-1] = (ranges[-1][0], number)
        else:
            ranges.append((number, number))
    return ranges

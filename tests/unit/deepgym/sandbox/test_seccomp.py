"""The filter is run here by a small interpreter of its instructions, for both architectures, call by call."""

import errno
import os
import struct
from functools import cache

import pytest

from deepgym.sandbox.runner import seccomp, syscalls

ALLOW, KILL = 0x7FFF0000, 0x80000000
ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
MACHINES = tuple(ARCH)
CLONE_NEWUSER, CLONE_THREAD_FLAGS = 0x10000000, 0x3D0F00


def decide(machine: str, number: int, *args: int, arch: int | None = None) -> int:
    """The action for one system call, by the rules of classic BPF."""
    program = instructions(machine)
    values = [*args, *(0 for _ in range(6 - len(args)))]
    record = struct.pack("=iIQ6Q", number, ARCH[machine] if arch is None else arch, 0, *values)
    accumulator = at = 0
    while True:
        code, if_true, if_false, constant = program[at]
        at += 1
        if code == 0x20:
            (accumulator,) = struct.unpack_from("=I", record, constant)
        elif code == 0x06:
            return constant
        else:
            truth = {
                0x15: accumulator == constant,
                0x35: accumulator >= constant,
                0x45: bool(accumulator & constant),
            }[code]
            at += if_true if truth else if_false


@cache
def instructions(machine: str) -> tuple[tuple[int, int, int, int], ...]:
    return tuple(struct.iter_unpack("=HBBI", seccomp.build(machine)))


def refused_with(number: int) -> int:
    return 0x00050000 | number


@pytest.mark.parametrize("machine", MACHINES)
def test_every_listed_call_gets_its_action_and_every_other_number_does_not_exist(machine):
    expected = dict.fromkeys(syscalls.allowed(machine).values(), ALLOW)
    expected |= dict.fromkeys(syscalls.ignored(machine).values(), refused_with(0))
    expected |= dict.fromkeys(syscalls.refused(machine).values(), refused_with(errno.EPERM))
    checked = set(syscalls.checked(machine).values())
    for number in range(600):
        if number not in checked:
            assert decide(machine, number) == expected.get(number, refused_with(errno.ENOSYS)), number


@pytest.mark.parametrize("machine", MACHINES)
def test_no_call_is_in_two_tables(machine):
    tables = [syscalls.allowed, syscalls.checked, syscalls.ignored, syscalls.refused]
    numbers = [number for table in tables for number in table(machine).values()]
    assert len(numbers) == len(set(numbers))


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize(
    ("name", "args", "action"),
    [
        ("clone", (CLONE_THREAD_FLAGS,), ALLOW),
        ("clone", (17,), ALLOW),  # SIGCHLD: fork
        ("clone", (CLONE_NEWUSER | 17,), refused_with(errno.EPERM)),
        ("clone", (0x20000000,), refused_with(errno.EPERM)),  # CLONE_NEWPID
        ("socket", (1, 1, 0), ALLOW),  # AF_UNIX
        ("socket", (2, 1, 0), refused_with(errno.EAFNOSUPPORT)),  # AF_INET
        ("socket", (17, 3, 0), refused_with(errno.EAFNOSUPPORT)),  # AF_PACKET, SOCK_RAW
        ("socketpair", (1, 1, 0), ALLOW),
        ("socketpair", (40, 1, 0), refused_with(errno.EAFNOSUPPORT)),  # AF_VSOCK
        ("mmap", (0, 4096, 3, 0x22), ALLOW),  # MAP_PRIVATE | MAP_ANONYMOUS
        ("mmap", (0, 4096, 3, 0x01), ALLOW),  # MAP_SHARED of a file
        ("mmap", (0, 4096, 3, 0x21), refused_with(errno.EPERM)),  # MAP_SHARED | MAP_ANONYMOUS
        ("mmap", (0, 4096, 3, 0x23), refused_with(errno.EPERM)),  # MAP_SHARED_VALIDATE | MAP_ANONYMOUS
        ("mmap", (0, 4096, 3, 0x40022), refused_with(errno.EPERM)),  # MAP_HUGETLB
        ("setsockopt", (3, 1, 7), refused_with(0)),  # SOL_SOCKET, SO_SNDBUF: success without effect
        ("setsockopt", (3, 1, 8), refused_with(0)),  # SO_RCVBUF
        ("setsockopt", (3, 1, 32), refused_with(0)),  # SO_SNDBUFFORCE
        ("setsockopt", (3, 1, 33), refused_with(0)),  # SO_RCVBUFFORCE
        ("setsockopt", (3, 1, 2), ALLOW),  # SO_REUSEADDR
        ("setsockopt", (3, 41, 7), ALLOW),  # the same number at another level
        ("prlimit64", (0, 7, 0, 0), ALLOW),
        ("prlimit64", (1, 7, 0, 0), refused_with(errno.EPERM)),
        ("personality", (0,), ALLOW),
        ("personality", (0xFFFFFFFF,), ALLOW),
        ("personality", (0x0040000,), refused_with(errno.EPERM)),  # ADDR_NO_RANDOMIZE
    ],
)
def test_rules_that_look_at_arguments(machine, name, args, action):
    assert decide(machine, syscalls.checked(machine)[name], *args) == action


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_of_another_architecture_end_the_process(machine):
    assert decide(machine, 0, arch=0x40000003) == KILL  # i386: other numbers for the same calls


def test_x32_calls_do_not_exist():
    assert decide("x86_64", 0x40000000 | 101) == refused_with(errno.ENOSYS)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "ptrace",
            "process_vm_readv",
            "pidfd_getfd",
            "unshare",
            "setns",
            "mount",
            "pivot_root",
            "bpf",
            "io_uring_setup",
        ),
        *(
            "userfaultfd",
            "perf_event_open",
            "keyctl",
            "open_by_handle_at",
            "setpriority",
            "sched_setattr",
            "kexec_load",
        ),
    ],
)
@pytest.mark.parametrize("machine", MACHINES)
def test_what_attacks_need_is_refused(machine, name):
    assert decide(machine, syscalls.refused(machine)[name]) == refused_with(errno.EPERM)


@pytest.mark.parametrize(
    ("machine", "name", "number"),
    # Numbers as in the kernel's tables. All are left out on purpose: memory that no process's size shows, objects that
    # outlive their maker, calls whose flags a filter cannot read.
    [
        ("x86_64", "memfd_create", 319),
        ("x86_64", "memfd_secret", 447),
        ("x86_64", "vmsplice", 278),
        ("x86_64", "clone3", 435),
        ("x86_64", "shmget", 29),
        ("x86_64", "semget", 64),
        ("x86_64", "msgget", 68),
        ("x86_64", "mq_open", 240),
        ("x86_64", "io_setup", 206),
        ("x86_64", "inotify_init1", 294),  # kernel memory for each watch
        ("aarch64", "memfd_create", 279),
        ("aarch64", "vmsplice", 75),
        ("aarch64", "clone3", 435),
        ("aarch64", "shmget", 194),
    ],
)
def test_calls_left_out_on_purpose(machine, name, number):
    assert decide(machine, number) == refused_with(errno.ENOSYS), name


def test_the_kernel_takes_the_filter():
    """In a child, so that this process stays free: after it, a forbidden call fails and an ordinary one does not."""
    from deepgym.sandbox.runner import kernel

    program = seccomp.build()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            kernel.install_filter(program)
            os.getpid()
            try:
                os.setpriority(os.PRIO_PROCESS, 0, 1)
            except PermissionError:
                code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def test_an_unknown_machine_is_an_error():
    with pytest.raises(OSError, match="riscv64"):
        seccomp.build("riscv64")

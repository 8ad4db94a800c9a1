"""Attacks on the kernel by system call: each fails with an error, or does what it says and reports a breach."""

from tests.integration.deepgym.attacks.attack import BOTH, DOCKER, Attack

_FILTERED = {
    "new_user_namespace": 'syscall("unshare", 0x10000000)',
    "new_user_namespace_by_clone": """
pid = syscall("clone", 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)
if pid == 0:
    os._exit(0)
os.waitpid(pid, 0)
""",
    "join_a_namespace": 'syscall("setns", os.open("/proc/self/ns/mnt", os.O_RDONLY), 0x00020000)',
    "trace_a_child": """
pid = os.fork()
if pid == 0:
    time.sleep(2)
    os._exit(0)
try:
    syscall("ptrace", 0x4206, pid, 0, 0)  # PTRACE_SEIZE
finally:
    os.kill(pid, signal.SIGKILL)
""",
    "io_uring": 'syscall("io_uring_setup", 8, ctypes.create_string_buffer(120))',
    "userfaultfd": 'syscall("userfaultfd", 1)',
    "kernel_keyring": 'syscall("add_key", b"user", b"mark", b"secret", 6, -4)',
    "fixed_address_layout": 'syscall("personality", 0x0040000)',
    "file_handles": """
handle = ctypes.create_string_buffer(struct.pack("Ii", 128, 0) + bytes(128))
syscall("name_to_handle_at", -100, b"/tmp", handle, ctypes.byref(ctypes.c_int()), 0)
""",
    "compare_kernel_objects": 'syscall("kcmp", os.getpid(), os.getpid(), 2, 0, 0)',
    "take_another_core": """
mask = (1 << host["core"]).to_bytes(128, "little")
syscall("sched_setaffinity", 0, len(mask), mask)
""",
    "netlink_socket": "socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)",
    "virtual_machine_socket": "socket.socket(40, socket.SOCK_STREAM)",
    "watch_all_files": 'syscall("fanotify_init", 0x200, 0)',
    "program_in_memory_only": 'syscall("memfd_create", b"hidden", 0)',
    "take_a_descriptor": 'syscall("pidfd_getfd", os.pidfd_open(os.getpid()), 1, 0)',
}
# Where the filter is not alone: the local jail allows no further user namespaces at all, and joining a namespace needs
# a capability.
_OPENS_ON = {
    "new_user_namespace": DOCKER,
    "new_user_namespace_by_clone": DOCKER,
    "join_a_namespace": frozenset[str](),
}
FILTERED = tuple(
    Attack(name, ("seccomp",), f"{code.strip()}\nbreach()", opens_on=_OPENS_ON.get(name, BOTH))
    for name, code in _FILTERED.items()
)

_PRIVILEGE = ("no_capabilities", "seccomp")
PRIVILEGED = (
    Attack(
        "mount_a_file_system",
        _PRIVILEGE,
        'os.makedirs("there")\nsyscall("mount", b"none", b"there", b"tmpfs", 0, 0)\nbreach()',
        as_call=True,
    ),
    Attack("rename_the_machine", _PRIVILEGE, 'socket.sethostname("owned")\nbreach()', as_call=True),
    Attack("new_network_namespace", _PRIVILEGE, 'syscall("unshare", 0x40000000)\nbreach()', as_call=True),
    Attack("change_the_root", _PRIVILEGE, 'os.chroot("/tmp")\nbreach()', as_call=True, opens_on=DOCKER),
    Attack(
        "make_a_device",
        _PRIVILEGE,
        'os.mknod("disk", 0o60600, os.makedev(254, 0))\nbreach()',
        as_call=True,
        opens_on=DOCKER,
    ),
    Attack(
        "raw_socket",
        _PRIVILEGE,
        "socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)\nbreach()",
        as_call=True,
        opens_on=DOCKER,
    ),
    Attack(
        "become_root",
        _PRIVILEGE,
        "os.setuid(0)\nif os.getuid() == 0: breach()",
        as_call=True,
        opens_on=DOCKER,
    ),
    Attack(
        "give_a_file_away",
        _PRIVILEGE,
        'open("f", "w").close()\nos.chown("f", 12345, 12345)\nbreach()',
        as_call=True,
        opens_on=DOCKER,
    ),
)

ALL = FILTERED + PRIVILEGED

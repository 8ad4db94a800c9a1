"""Attacks that reach out: to the network, to other processes, to the host's files, to the runner."""

from pathlib import Path

import deepgym
from tests.integration.deepgym.attacks.attack import DOCKER, Attack

_NETWORK = ("no_network", "seccomp")
# Whether every folder on the way to the package lets strangers through.
_OPEN_TO_ALL = all(folder.stat().st_mode & 0o001 for folder in Path(deepgym.__file__).resolve().parents)
NETWORK = (
    Attack(
        "tcp_to_the_host", _NETWORK, 'socket.create_connection(("127.0.0.1", host["tcp_port"]), timeout=2)\nbreach()'
    ),
    Attack(
        "udp_to_the_host",
        _NETWORK,
        """
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.settimeout(2)
s.sendto(b"ping", ("127.0.0.1", host["udp_port"]))
if s.recvfrom(16)[0] == b"pong":
    breach()
""",
    ),
    Attack(
        "abstract_unix_socket_of_the_host",
        ("no_network",),
        """
s = socket.socket(socket.AF_UNIX)
s.settimeout(2)
s.connect("\\0" + host["abstract_name"])
breach()
""",
    ),
    Attack("interfaces_beyond_loopback", _NETWORK, "if len(socket.if_nameindex()) > 1: breach()"),
)

_PROCESSES = ("private_processes", "hidden_supervisor")
PROCESSES = (
    Attack(
        "signal_a_stranger",
        _PROCESSES,
        """
# Process 1 of a private namespace is the runner, which such signals do not reach.
for pid in [host["victim_pid"], *range(1, os.getppid())]:
    try:
        os.kill(pid, signal.SIGURG)  # ignored by default
        breach(pid)
    except OSError:
        pass
""",
    ),
    Attack(
        "see_strangers",
        _PROCESSES,
        """
for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
    if pid not in (1, os.getpid(), os.getppid()) and open(f"/proc/{pid}/cmdline").read():
        breach(pid)
""",
    ),
    Attack(
        "kill_the_runner",
        ("private_processes",),
        "os.kill(os.getppid(), signal.SIGKILL)\nos.kill(-1, signal.SIGKILL)",
        got_through=lambda outcomes: "sandbox ended" in outcomes[0].error,
        alone=True,
    ),
    Attack(
        "secret_variable_of_the_service",
        ("empty_environment",),
        """
if "DEEPGYM_TEST_SECRET" in os.environ or "DEEPGYM_TEST_SECRET" in open("/proc/self/environ").read():
    breach()
""",
        as_call=True,
    ),
)

_RUNNER = ("hidden_supervisor",)
RUNNER = (
    Attack("read_the_runner_s_memory", _RUNNER, 'open(f"/proc/{os.getppid()}/mem", "rb").close()\nbreach()'),
    Attack("list_the_runner_s_descriptors", _RUNNER, 'if os.listdir(f"/proc/{os.getppid()}/fd"): breach()'),
    Attack(
        "trace_the_runner",
        ("hidden_supervisor", "seccomp"),
        'syscall("ptrace", 0x4206, os.getppid(), 0, 0)  # PTRACE_SEIZE\nbreach()',
    ),
    Attack(
        "read_the_runner_s_memory_by_call",
        ("hidden_supervisor", "seccomp"),
        """
address = int(open(f"/proc/{os.getppid()}/maps").read().split("-")[0], 16)
buffer = ctypes.create_string_buffer(64)
local = struct.pack("QQ", ctypes.addressof(buffer), 64)
remote = struct.pack("QQ", address, 64)
syscall("process_vm_readv", os.getppid(), local, 1, remote, 1, 0)
breach()
""",
    ),
    Attack(
        "choke_the_runner",
        ("seccomp",),
        'syscall("prlimit64", os.getppid(), 4, struct.pack("QQ", 0, 0), 0)  # RLIMIT_CORE\nbreach()',
    ),
    Attack(
        "write_an_outcome_into_the_runner_s_pipe",
        ("hidden_supervisor",),
        """
def frame(header, *blobs):
    text = json.dumps({**header, "blobs": [len(blob) for blob in blobs]}).encode()
    return struct.pack("!II", len(text), sum(map(len, blobs))) + text + b"".join(blobs)

forged = frame(
    {"step": 0, "status": "ok", "exit_code": 0, "error": "", "files": [], "cpu_ms": 0, "wall_ms": 0},
    b"BREACH: forged", b"",
) + frame({"done": True, "cpu_ms": 0, "wall_ms": 0, "peak_memory_bytes": 0, "notes": []})
folder = f"/proc/{os.getppid()}/fd"
for name in os.listdir(folder):
    try:
        os.write(os.open(f"{folder}/{name}", os.O_WRONLY | os.O_NONBLOCK), forged)
    except OSError:
        pass
""",
        alone=True,
        opens_on=DOCKER,  # the local runner's channel is a socket, which /proc does not open
    ),
)


_READ_SECRET = """
for root in ("", "/host"):
    try:
        if "hidden cases" in open(%s).read():
            breach()
    except OSError:
        pass
"""
FILES = (
    Attack("read_a_file_of_the_host", ("hidden_host",), _READ_SECRET % 'root + host["secret_path"]'),
    Attack("read_it_with_dots_in_the_path", ("hidden_host",), _READ_SECRET % '"../" * 20 + root + host["secret_path"]'),
    Attack(
        "read_it_through_a_symlink",
        ("hidden_host",),
        'for i, root in enumerate(("", "/host")): os.symlink(root + host["secret_path"], f"innocent{i}.txt")\n'
        + _READ_SECRET % '"innocent0.txt" if root == "" else "innocent1.txt"',
    ),
    Attack(
        "read_the_verifier",
        ("hidden_host",),
        _READ_SECRET.replace("hidden cases", "def cases") % 'root + host["verifier"]',
        # The local jail has folders of its own where this one may lie, and a private folder keeps everybody out.
        opens_on=DOCKER if _OPEN_TO_ALL else frozenset(),
    ),
    Attack("write_a_file_of_the_host", ("jail",), 'open(host["open_folder"] + "/planted", "w").write("x")\nbreach()'),
    Attack(
        "leave_a_file_for_the_next_answer",
        ("single_use",),
        """
folders = ("/work", "/tmp", "/var/tmp", "/dev/shm", "/run", "/dev/mqueue", "/", "/box")
places = [os.path.join(folder, "left-behind") for folder in folders]
if any(map(os.path.exists, places)):
    breach()
for path in places:
    try:
        open(path, "w").write("x")
    except OSError:
        pass
""",
    ),
)

ALL = NETWORK + PROCESSES + RUNNER + FILES

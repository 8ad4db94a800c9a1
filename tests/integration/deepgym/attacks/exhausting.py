"""Bombs. Each takes a bounded amount, well above the limit, and says so when it has it.

Taking the wall away means raising that limit, so an attack that then succeeds shows that the limit was what held.
"""

from tests.integration.deepgym.attacks.attack import LIMITS, Attack, Outcomes


def _output_above_limit(outcomes: Outcomes) -> bool:
    return any(len(out) > LIMITS.output_bytes for step in outcomes for out in (step.stdout, step.stderr))


ALL = (
    Attack(
        "memory_bomb",
        ("memory_bytes",),
        """
block = bytearray(200 << 20)
block[::4096] = b"x" * len(block[::4096])
breach()
""",
    ),
    Attack(
        "memory_bomb_of_many_processes",
        ("memory_bytes",),
        """
children = []
for _ in range(8):
    pid = os.fork()
    if pid == 0:
        block = bytearray(40 << 20)
        block[::4096] = b"x" * len(block[::4096])
        time.sleep(1.5)
        os._exit(0)
    children.append(pid)
if all(os.waitpid(pid, 0)[1] == 0 for pid in children):
    breach()
""",
    ),
    Attack(
        "memory_bomb_by_big_number",
        ("memory_bytes",),
        "n = 1 << (8 * 200 << 20); breach()",
    ),
    Attack(
        "memory_bomb_by_shared_mapping",
        ("memory_bytes", "seccomp"),
        """
import mmap
blocks = []
for _ in range(50):
    block = mmap.mmap(-1, 4 << 20)
    block.write(b"x" * (4 << 20))
    blocks.append(block)
breach()
""",
    ),
    Attack(
        "memory_bomb_in_sockets",
        ("memory_bytes",),
        """
server = socket.socket(socket.AF_UNIX)
server.bind("\\0full")
server.listen(4096)
held = 0
while held < 200 << 20:  # each is closed as soon as it is full, and waits to be accepted
    with socket.socket(socket.AF_UNIX) as client:
        client.connect("\\0full")
        client.setblocking(False)
        try:
            while True:
                held += client.send(bytes(1 << 16))
        except BlockingIOError:
            pass
breach()
time.sleep(0.1)
""",
    ),
    Attack(
        "large_socket_buffer",
        ("seccomp",),
        """
one = socket.socket(socket.AF_UNIX)
before = one.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)
one.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 24)
if one.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) > before:
    breach()
""",
    ),
    Attack(
        "fork_bomb",
        ("processes",),
        """
children = []
for _ in range(60):
    pid = os.fork()
    if pid == 0:
        time.sleep(2)
        os._exit(0)
    children.append(pid)
breach()
""",
    ),
    Attack(
        "fork_bomb_of_runaways",
        ("processes",),
        """
read, write = os.pipe()
for _ in range(60):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.write(write, b"x")
            time.sleep(1)
        os._exit(0)
    os.wait()
os.close(write)
started = 0
while part := os.read(read, 100):
    started += len(part)
if started >= 60:
    breach()
""",
    ),
    Attack(
        "thread_bomb",
        ("processes",),
        """
threading.stack_size(256 << 10)
threads = [threading.Thread(target=time.sleep, args=(1,), daemon=True) for _ in range(60)]
for thread in threads:
    thread.start()
breach()
""",
    ),
    Attack(
        "descriptor_bomb",
        ("open_files",),
        """
files = [open("/dev/null") for _ in range(60)]
breach()
""",
    ),
    Attack(
        "disk_bomb",
        ("disk_bytes",),
        """
for number in range(24):
    with open(f"block{number}", "wb") as file:
        file.write(b"x" * (1 << 20))
breach()
""",
    ),
    Attack(
        "disk_bomb_in_the_temporary_folder",
        ("disk_bytes",),
        """
for number in range(24):
    with open(f"/tmp/block{number}", "wb") as file:
        file.write(b"x" * (1 << 20))
breach()
""",
    ),
    Attack(
        "disk_bomb_of_one_file",
        ("disk_bytes",),
        """
with open("one", "wb") as file:
    for _ in range(24):
        file.write(b"x" * (1 << 20))
        file.flush()
breach()
""",
    ),
    Attack(
        "output_bomb",
        ("output_bytes",),
        "for _ in range(256): print('1234567890' * 100)\nbreach()",
        got_through=_output_above_limit,
    ),
    Attack(
        "output_bomb_on_stderr",
        ("output_bytes",),
        "for _ in range(256): print('1234567890' * 100, file=sys.stderr)\nbreach()",
        got_through=_output_above_limit,
    ),
    Attack(
        "collected_file_bomb",
        ("output_bytes",),
        "open('answer.txt', 'wb').write(b'x' * (1 << 20))",
        collect=("answer.txt",),
        got_through=lambda outcomes: "answer.txt" in outcomes[0].files,
    ),
    Attack(
        "endless_loop",
        ("cpu_seconds",),
        cpu_seconds=0.5,
        code="while time.process_time() < 1.0: pass\nbreach()",
    ),
    Attack(
        "endless_loop_that_ignores_signals",
        ("cpu_seconds",),
        cpu_seconds=0.5,
        code="""
for number in range(1, 65):
    try:
        signal.signal(number, signal.SIG_IGN)
    except (OSError, ValueError):
        pass
while time.process_time() < 1.0:
    pass
breach()
""",
    ),
    Attack(
        "endless_loop_shared_among_processes",
        ("cpu_seconds",),
        cpu_seconds=0.5,
        code="""
children = []
for _ in range(4):
    pid = os.fork()
    if pid == 0:
        while time.process_time() < 0.3:
            pass
        os._exit(0)
    children.append(pid)
if all(os.waitpid(pid, 0)[1] == 0 for pid in children):
    breach()
""",
    ),
    Attack(
        "endless_loop_in_short_lived_runaways",
        ("cpu_seconds",),
        cpu_seconds=0.5,
        code="""
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # children leave no record with their parent
for _ in range(10):
    pid = os.fork()
    if pid == 0:
        while time.process_time() < 0.12:
            pass
        os._exit(0)
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        pass
breach()
""",
    ),
    Attack("endless_sleep", ("wall_seconds",), wall_seconds=1.5, code="time.sleep(3.5)\nbreach()"),
    Attack(
        "endless_wait_for_input",
        ("wall_seconds",),
        wall_seconds=1.5,
        code="""
read, write = os.pipe()
import select
select.select([read], [], [], 3.5)
breach()
""",
    ),
)

"""The local backend for real: bubblewrap, forks, limits. Times are generous: other work may share the cores."""

import asyncio
import gc
import os
import time
from pathlib import Path

import pytest

from deepgym.exceptions import SandboxError, SandboxTimeoutError, SandboxUnavailableError
from deepgym.sandbox.base import MIB, Call, Exec, Job, JobResult, Limits, Sandbox
from deepgym.sandbox.local import slot as slot_module
from deepgym.sandbox.local.sandbox import LocalSandbox
from deepgym.sandbox.local.slot import Slot
from deepgym.sandbox.local.unisolated import NOTE, UnisolatedSandbox
from deepgym.sandbox.runner.watch import descendants

PACKAGE = str(Path(__file__).resolve().parents[3] / "deepgym")
PYTHON = ("python3", "s.py")


@pytest.fixture
async def sandbox():
    sandbox = LocalSandbox(1)
    await sandbox.start()
    yield sandbox
    await sandbox.close()


def call(source: str, *args: object, **limits: float) -> Job:
    return Job({"s.py": source.encode()}, (Call("f", args),), Limits(**limits), module="s.py")


def program(source: str | bytes, stdin: bytes = b"", **limits: float) -> Job:
    data = source if isinstance(source, bytes) else source.encode()
    return Job({"s.py": data}, (Exec(PYTHON, stdin),), Limits(**limits))


async def value(sandbox: Sandbox, source: str, *args: object, **limits: float) -> object:
    (outcome,) = (await sandbox.run(call(source, *args, **limits))).outcomes
    assert outcome.status == "ok", outcome
    return outcome.value


async def status(sandbox: Sandbox, job: Job) -> str:
    return (await sandbox.run(job)).outcomes[0].status


def statuses(result: JobResult) -> list[str]:
    return [outcome.status for outcome in result.outcomes]


def jailed(sandbox: LocalSandbox) -> list[int]:
    """All processes of its jails."""
    roots = [slot._process.pid for slot in sandbox._all if slot._process is not None]
    return roots + [pid for root in roots for pid in descendants(root)]


def runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"  # ended, whether or not anybody has asked how


def resident(pid: int) -> int:
    """Bytes of memory; 0 for one that ended."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except FileNotFoundError:
        return 0


class TestSteps:
    async def test_calls_share_one_fresh_process(self, sandbox):
        source = b"seen = []\ndef f(x):\n    seen.append(x)\n    print('said', x)\n    return seen, (1, 2.5), None\n"
        job = Job({"s.py": source}, (Call("f", (1,)), Call("f", ("zwei",))), module="s.py")
        for _ in range(2):  # the second job sees nothing of the first
            first, second = (await sandbox.run(job)).outcomes
            assert (first.value, first.stdout) == ([[1], [1, 2.5], None], b"said 1\n")
            assert (second.value, second.stdout) == ([[1, "zwei"], [1, 2.5], None], b"said zwei\n")

    async def test_what_goes_wrong_in_a_call(self, sandbox):
        source = b"""
import os, sys
def bad(): return {1, 2}
def deep(): return deep()
def left(): sys.exit(0)
def huge():
    sys.set_int_max_str_digits(0)
    return 10 ** 5000
"""
        steps = (Call("bad"), Call("deep"), Call("none"), Call("huge"), Call("left"), Call("bad"))
        result = await sandbox.run(Job({"s.py": source}, steps, module="s.py"))
        assert statuses(result) == ["error", "error", "error", "error", "exited", "not_run"]
        texts = [outcome.error for outcome in result.outcomes]
        assert texts[0] == "TypeError: returned a value of type set, which is not JSON data"
        assert texts[1].startswith("RecursionError")
        assert texts[2] == "NameError: the answer defines no 'none'"

    @pytest.mark.parametrize(
        ("source", "expected"),
        [
            ("import os\ndef f(): os._exit(0)", "exited"),
            ("import os\nos._exit(0)", "exited"),
            ("import os\ndef f(): os.kill(os.getpid(), 11)", "signal"),
            ("def f(: pass", "error"),
            ("raise SystemExit(0)", "exited"),
            ("def f(): raise MemoryError", "memory"),
            ("import sys\ndel sys.stdout\ndef f(): ...", "ok"),  # it lost its output, and did not leave
            ("import sys\nclass S:\n def flush(self): sys.exit()\nsys.stdout = S()\ndef f(): ...", "ok"),
        ],
    )
    async def test_how_an_answer_may_leave(self, sandbox, source, expected):
        assert await status(sandbox, call(source)) == expected

    async def test_programs_files_and_exit_codes(self, sandbox):
        steps = (
            Exec(("bash", "-c", "cat > in/got; echo out; echo err >&2; exit 3"), b"stdin", ("in/got", "in/missing")),
            Exec(("./tool.sh",), cwd="in"),
            Exec(("no-such-program",)),
            Exec(("bash", "-c", "kill -9 $$")),
            Exec(("true",)),
        )
        files = {"in/empty": b"", "in/tool.sh": b"#!/bin/sh\npwd\n"}
        result = await sandbox.run(Job(files, steps))
        assert statuses(result) == ["error", "ok", "error", "signal", "not_run"]
        first, second, third, fourth, _ = result.outcomes
        assert (first.exit_code, first.stdout, first.stderr) == (3, b"out\n", b"err\n")
        assert first.files == {"in/got": b"stdin"}
        assert second.stdout == b"/work/in\n"
        assert (third.exit_code, fourth.exit_code) == (127, -9)

    async def test_collected_files_are_regular_files_of_the_working_directory(self, sandbox):
        script = "ln -s /etc/passwd link; mkfifo pipe; ln -s / root; mkdir d; echo x > d/ok"
        collect = ("link", "pipe", "root/etc/passwd", "d", "d/ok")
        result = await sandbox.run(Job({}, (Exec(("bash", "-c", script), collect=collect),)))
        assert result.outcomes[0].files == {"d/ok": b"x\n"}


class TestLimits:
    async def test_cpu_time(self, sandbox):
        result = await sandbox.run(call("def f():\n    while True: pass", cpu_seconds=0.3))
        assert result.outcomes[0].status == "timeout"
        assert 300 <= result.cpu_ms < 1500

    async def test_cpu_time_of_many_short_processes(self, sandbox):
        """No process of it comes near the limit, and nobody waits for them."""
        source = """
import os, signal, time
def f():
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        if os.fork() == 0:
            end = time.process_time() + 0.1
            while time.process_time() < end: pass
            os._exit(0)
        time.sleep(0.1)
"""
        assert await status(sandbox, call(source, cpu_seconds=0.5, wall_seconds=20)) == "timeout"

    async def test_idling(self, sandbox):
        assert await status(sandbox, call("import time\ndef f(): time.sleep(60)", wall_seconds=2)) == "timeout"
        program_that_idles = program("input()\nimport time\ntime.sleep(60)", b"\n", wall_seconds=2)
        assert await status(sandbox, program_that_idles) == "timeout"

    async def test_memory_of_one_process(self, sandbox):
        assert await status(sandbox, call("def f(): return len(bytearray(10 ** 9))")) == "memory"

    async def test_memory_of_the_tree(self, sandbox):
        source = """
import os, time
def f():
    for _ in range(8):
        if os.fork() == 0:
            x = bytearray(b'x') * (40 << 20)
            time.sleep(30)
    time.sleep(30)
"""
        result = await sandbox.run(call(source, memory_bytes=128 * MIB, wall_seconds=20))
        assert result.outcomes[0].status == "memory"
        assert result.peak_memory_bytes > 128 * MIB

    async def test_pages_shared_after_a_fork_count_once(self, sandbox):
        source = """
import os, time
x = bytearray(b'x') * (60 << 20)
def f():
    children = [os.fork() for _ in range(1)]
    if not children[0]:
        time.sleep(0.2); os._exit(0)
    time.sleep(0.2)
    return len(x)
"""
        assert await value(sandbox, source, memory_bytes=110 * MIB) == 60 * MIB

    async def test_memory_that_no_size_shows_cannot_be_had(self, sandbox):
        source = """
import ctypes, mmap, os
def refused(make):
    try: make()
    except OSError as error: return error.errno
def f():
    libc = ctypes.CDLL(None, use_errno=True)
    shm = libc.shmget(0, 4096, 0o1600)
    return refused(lambda: mmap.mmap(-1, 4096)), refused(lambda: os.memfd_create("x")), shm, os.path.exists("/dev/zero")
"""
        assert await value(sandbox, source) == [1, 38, -1, False]  # EPERM, ENOSYS

    async def test_processes_and_threads(self, sandbox):
        source = """
import os, time
def f():
    made = 0
    try:
        while True:
            if os.fork() == 0: time.sleep(60)
            made += 1
    except BlockingIOError:
        return made
"""
        assert await value(sandbox, source, processes=10) == 9  # and itself
        bomb = "import os\ndef f():\n    while True:\n        try: os.fork()\n        except OSError: pass"
        assert await status(sandbox, call(bomb, processes=10, cpu_seconds=0.5)) == "timeout"

    async def test_disk(self, sandbox):
        source = """
import os
def f(folder):
    made = 0
    try:
        while True:
            with open(f"{folder}/{made}", "wb") as file: file.write(bytes(1 << 20))
            made += 1
    except OSError as error:
        return made, error.errno
"""
        for folder in ("/work", "/tmp", "/dev/shm"):
            assert await value(sandbox, source, folder, disk_bytes=8 * MIB) == [7, 28]  # the answer's file takes a page
        assert (
            await status(sandbox, program("open('f', 'wb').write(bytes(9 << 20))", disk_bytes=8 * MIB)) == "disk_limit"
        )
        too_much = Job({"big": bytes(9 << 20)}, (Exec(("true",)),), Limits(disk_bytes=8 * MIB))
        assert await status(sandbox, too_much) == "disk_limit"

    async def test_descriptors(self, sandbox):
        source = """
import os
def f():
    kept = []
    try:
        while True: kept.append(os.open("/dev/null", 0))
    except OSError as error:
        return error.errno
"""
        assert await value(sandbox, source) == 24  # EMFILE

    @pytest.mark.parametrize("stream", ["stdout", "stderr"])
    async def test_output(self, sandbox, stream):
        flood = f"import sys\ndef f():\n    while True: sys.{stream}.write('1234567890' * 100)"
        result = await sandbox.run(call(flood, output_bytes=MIB))
        assert result.outcomes[0].status == "output_limit"
        assert len(result.outcomes[0].stdout) + len(result.outcomes[0].stderr) <= MIB
        assert await status(sandbox, call("def f(): return 'x' * (1 << 21)")) == "output_limit"

    async def test_a_job_after_each_breach_runs_as_if_nothing_had_been(self, sandbox):
        assert await status(sandbox, call("import os\ndef f():\n    while True: os.fork()", cpu_seconds=0.3)) != "ok"
        assert await value(sandbox, "import os\ndef f(): return os.listdir('.'), os.listdir('/tmp')") == [["s.py"], []]


class TestJail:
    async def test_what_is_there(self, sandbox):
        source = """
import os
def f():
    status = dict(line.split(":\\t") for line in open("/proc/self/status").read().splitlines())
    caps = {status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")}
    pids = [name for name in os.listdir("/proc") if name.isdecimal()]
    return os.getuid(), caps == {"0" * 16}, status["NoNewPrivs"], status["Seccomp"], len(pids), sorted(os.environ)
"""
        names = (
            "HOME LANG LC_ALL OMP_NUM_THREADS OPENBLAS_NUM_THREADS PATH PYTHONDONTWRITEBYTECODE PYTHONHASHSEED TMPDIR"
        )
        assert await value(sandbox, source) == [1000, True, "1", "2", 1, names.split()]

    async def test_nothing_outside_the_box_can_be_written(self, sandbox):
        source = """
import os
def f():
    found = []
    for folder, folders, _ in os.walk("/"):
        if folder.split("/")[1] in ("proc", "work", "tmp") or folder.startswith("/dev/shm"):
            folders.clear()
        elif os.access(folder, os.W_OK):
            found.append(folder)
    return found
"""
        assert await value(sandbox, source) == []

    async def test_the_repository_and_the_hosts_secrets_are_not_there(self, sandbox):
        source = "import os\ndef f(paths): return [path for path in paths if os.path.exists(path)]"
        paths = [
            PACKAGE,
            "/root",
            "/home",
            "/var",
            "/etc/shadow",
            "/etc/hostname",
            "/sys",
            "/proc/sys",
            "/proc/1",
            "/mnt",
        ]
        assert await value(sandbox, source, paths) == []

    async def test_the_supervisor_cannot_be_signalled_choked_or_read(self, sandbox):
        source = """
import os, resource, signal
def f():
    said = []
    for number in range(1, 32):
        os.kill(os.getppid(), number)
    for attempt in (
        lambda: resource.prlimit(1, resource.RLIMIT_NOFILE, (0, 0)),
        lambda: os.setpriority(os.PRIO_PROCESS, 0, 5),
        lambda: os.listdir("/proc/1"),
        lambda: os.sched_setaffinity(1, {0}),
    ):
        try: attempt()
        except OSError as error: said.append(error.errno)
    return said
"""
        assert await value(sandbox, source) == [1, 1, 2, 1]

    async def test_a_daemon_ends_with_its_run(self, sandbox):
        source = """
import os, time
def f():
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            time.sleep(1000)
        os._exit(0)
    time.sleep(0.2)
    return 1
"""
        before = set(jailed(sandbox))
        assert await value(sandbox, source) == 1
        assert set(jailed(sandbox)) == before

    async def test_two_slots_do_not_share_a_user_and_run_at_once(self):
        sandbox = LocalSandbox(2)
        await sandbox.start()
        source = "import time\ndef f(): return time.time(), time.sleep(3), time.time()"
        await asyncio.gather(*(value(sandbox, "def f(): return 1") for _ in range(2)))  # both jails are up
        spans = await asyncio.gather(*(value(sandbox, source) for _ in range(2)))
        assert max(span[0] for span in spans) < min(span[2] for span in spans)
        if os.geteuid() == 0:
            assert len({lease.uid for lease in sandbox._leases}) == 2
        await sandbox.close()


def kill_jails_under_answers(sandbox: LocalSandbox, monkeypatch: pytest.MonkeyPatch, *, times: int) -> list[int]:
    """Kill the only slot's jail as soon as an answer may run in it; returns the process ids, as they go."""
    real, killed = slot_module.exchange, []

    async def exchange(channel, frames, reader):
        talk = asyncio.create_task(real(channel, frames, reader))
        while len(killed) < times and not reader.started:  # noqa: ASYNC110  (a reader has no event)
            await asyncio.sleep(0.01)
        if len(killed) < times:
            process = sandbox._all[0]._process
            process.kill()
            killed.append(process.pid)
        await talk

    monkeypatch.setattr(slot_module, "exchange", exchange)
    return killed


class TestLife:
    async def test_cancelling_kills_the_run_and_frees_the_slot(self, sandbox):
        task = asyncio.create_task(sandbox.run(call("import time\ndef f(): time.sleep(1000)")))
        await asyncio.sleep(0.3)
        before = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert time.monotonic() - before < 60  # the answer sleeps on for 1000
        assert await value(sandbox, "def f(): return 1") == 1

    async def test_a_killed_jail_is_replaced(self, sandbox):
        assert await value(sandbox, "def f(): return 1") == 1
        for slot in sandbox._all:
            slot._process.kill()
        assert await value(sandbox, "def f(): return 2") == 2

    async def test_a_jail_that_the_host_kills_during_a_job_costs_nothing(self, sandbox, monkeypatch):
        """As the kernel does for want of memory: the answer runs again, in another jail."""
        killed = kill_jails_under_answers(sandbox, monkeypatch, times=1)
        assert await value(sandbox, "import time\ndef f(): return time.sleep(0.5) or 3") == 3
        assert len(killed) == 1

    async def test_a_jail_that_dies_twice_under_an_answer_is_the_answer_s_doing(self, sandbox, monkeypatch):
        """Else an answer that found a way to end its jail could choose to have no verdict."""
        killed = kill_jails_under_answers(sandbox, monkeypatch, times=3)
        assert await status(sandbox, call("import time\ndef f(): time.sleep(100)")) == "signal"
        assert len(killed) == 2
        monkeypatch.undo()
        assert await value(sandbox, "def f(): return 1") == 1

    async def test_a_start_that_failed_may_be_tried_again(self, monkeypatch):
        """As on a host too busy to bring up a jail in time."""
        real, tries = Slot.start, []

        async def start(slot):
            tries.append(slot)
            if len(tries) == 1:
                raise SandboxUnavailableError("the jail did not come up")
            await real(slot)

        monkeypatch.setattr(Slot, "start", start)
        sandbox = LocalSandbox(2)
        with pytest.raises(SandboxUnavailableError):
            await sandbox.start()
        await sandbox.start()
        assert await value(sandbox, "def f(): return 1") == 1
        assert len(sandbox._all) == 2
        await sandbox.close()

    async def test_a_supervisor_that_hangs_is_a_timeout_and_the_answer_is_not_run_again(self, sandbox, monkeypatch):
        calls = []

        async def exchange(*arguments):
            calls.append(arguments)
            await asyncio.sleep(60)

        monkeypatch.setattr(slot_module, "exchange", exchange)
        monkeypatch.setattr(slot_module, "GRACE_SECONDS", 0.1)
        with pytest.raises(SandboxTimeoutError, match="no result within"):
            await sandbox.run(call("def f(): return 1", wall_seconds=0.1))
        assert len(calls) == 1

    async def test_closing_leaves_no_process_and_no_descriptor(self):
        gc.collect()  # what other tests left
        descriptors = len(os.listdir("/proc/self/fd"))
        sandbox = LocalSandbox(2)
        await sandbox.start()
        for _ in range(3):
            await asyncio.gather(*(value(sandbox, "def f(): return 1") for _ in range(4)))
        processes = jailed(sandbox)
        assert len(processes) >= 6  # of each jail bubblewrap, its process 1, and the zygote
        await sandbox.close()
        await sandbox.close()
        gc.collect()
        assert len(os.listdir("/proc/self/fd")) == descriptors
        assert [pid for pid in processes if runs(pid)] == []
        with pytest.raises(SandboxError, match="not running"):
            await sandbox.run(call("def f(): return 1"))

    async def test_closing_waits_for_an_answer_that_takes_its_time_to_die(self, sandbox):
        """Its memory has to be given back first. Till then its user id is not free for another sandbox."""
        source = "import time\nx = bytearray(b'x') * (200 << 20)\ndef f(): time.sleep(1000)"
        task = asyncio.create_task(sandbox.run(call(source)))
        async with asyncio.timeout(60):
            while not (large := [pid for pid in jailed(sandbox) if resident(pid) >= 200 * MIB]):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await sandbox.close()
        assert not runs(large[0])
        with pytest.raises(SandboxError, match="was closed while the job"):
            await task

    async def test_many_waiting_jobs_all_come_back(self, sandbox):
        jobs = [call("def f(x): return x", number) for number in range(30)]
        results = await asyncio.gather(*(sandbox.run(job) for job in jobs))
        assert [result.outcomes[0].value for result in results] == list(range(30))


async def test_without_a_jail_limits_still_hold_and_the_result_says_so(tmp_path):
    sandbox = UnisolatedSandbox(1)
    await sandbox.start()
    result = await sandbox.run(call("import time\ndef f(): time.sleep(60)", wall_seconds=2))
    assert (result.outcomes[0].status, result.notes) == ("timeout", (NOTE,))
    daemon = """
import os, time
def f():
    pid = os.fork()
    if pid == 0:
        os.setsid()
        time.sleep(1000)
    return pid
"""
    pid = await value(sandbox, daemon)
    assert isinstance(pid, int)
    assert not runs(pid)
    await sandbox.close()

"""Standard streams are real pipes, drained and bounded (public reports h1 and h2)."""

import subprocess
import sys
import time
from pathlib import Path

import pytest

from deepgym.sandbox.base import MIB, Exec, Job, Limits

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.parametrize("backend", ["local", "docker"])]

NUMBERS = b"3\n1 2 3\n"
SUMS = {
    "read_bytes": "import sys\nprint(sum(map(int, sys.stdin.buffer.read().split()[1:])))",
    "open_zero": "print(sum(map(int, open(0).read().split()[1:])))",
    "lines": "import sys\nlines = [line for line in sys.stdin]\nprint(sum(map(int, lines[1].split())))",
    "input_twice": "input()\nprint(sum(map(int, input().split())))",
    "byte_lines": "import sys\nsys.stdin.buffer.readline()\nprint(sum(map(int, sys.stdin.buffer.readline().split())))",
    "os_read": "import os\nprint(sum(map(int, os.read(0, 100).split()[1:])))",
    "write_bytes": "import sys\nsys.stdout.buffer.write(b'%d\\n' % sum(map(int, sys.stdin.read().split()[1:])))",
}
ECHOES = {
    "text": "import sys\nprint(sys.stdin.read(), end='')",
    "bytes": "import sys\nsys.stdout.buffer.write(sys.stdin.buffer.read())",
    "lines": "import sys\nfor line in sys.stdin: print(repr(line))",
}
INPUTS = [b"3\r\n1 2 3\r\n", b"3\n1 2 3", "naïve – 数\n".encode(), b""]
LIMITS = Limits(cpu_seconds=20.0, wall_seconds=40.0, output_bytes=MIB)


def job(programs: dict[str, str], inputs: list[bytes], limits: Limits = LIMITS) -> Job:
    """Every program on every input, in that order."""
    files = {f"{name}.py": code.encode() for name, code in programs.items()}
    steps = tuple(Exec(("python3", f"{name}.py"), stdin) for name in programs for stdin in inputs)
    return Job(files, steps, limits)


async def test_every_way_to_read_works(backend, sandboxes):
    result = await (await sandboxes.get(backend, warm=2)).run(job(SUMS, [NUMBERS]))
    assert [(outcome.status, outcome.stdout) for outcome in result.outcomes] == [("ok", b"6\n")] * len(SUMS)


async def test_a_program_sees_what_it_would_see_with_a_file(backend, sandboxes, tmp_path):
    result = await (await sandboxes.get(backend, warm=2)).run(job(ECHOES, INPUTS))
    expected = [_beside_a_file(code, stdin, tmp_path) for code in ECHOES.values() for stdin in INPUTS]
    assert [outcome.stdout for outcome in result.outcomes] == expected


def _beside_a_file(code: str, stdin: bytes, folder: Path) -> bytes:
    """The same program run by this interpreter, reading from a file."""
    (folder / "input").write_bytes(stdin)
    with (folder / "input").open("rb") as file:
        command = [sys.executable, "-X", "utf8", "-c", code]
        return subprocess.run(command, stdin=file, capture_output=True, check=True, timeout=60).stdout


async def test_one_input_too_many_fails_at_once(backend, sandboxes):
    sandbox = await sandboxes.get(backend, warm=2)
    result = await sandbox.run(job({"three_lines": "input()\ninput()\ninput()"}, [NUMBERS, b""]))
    for outcome in result.outcomes:
        assert (outcome.status, outcome.exit_code) == ("error", 1)
        assert b"EOFError" in outcome.stderr
    assert result.wall_ms < 1000 * LIMITS.wall_seconds  # none of them waited for more


FLOODS = {
    "stdout": "while True: print('1234567890' * 100)",
    "stderr": "import sys\nwhile True: print('1234567890' * 100, file=sys.stderr)",
    "one_line": "print('x' * (50 << 20))",
    "right_answer_then_spaces": "print(6)\nfor _ in range(1024): print(' ' * (1 << 20), end='')",
}


@pytest.mark.parametrize("flood", FLOODS)
async def test_a_flood_is_cut(backend, flood, sandboxes):
    sandbox = await sandboxes.get(backend, warm=2)
    before, started = _reset_peak_memory(), time.monotonic()
    result = await sandbox.run(job({flood: FLOODS[flood]}, [b""]))
    (outcome,) = result.outcomes
    assert outcome.status == "output_limit"
    assert len(outcome.stdout) <= MIB
    assert len(outcome.stderr) <= MIB
    assert time.monotonic() - started < LIMITS.wall_seconds + 2
    assert _peak_memory() - before < 64 * MIB


async def test_what_is_more_than_a_pipe_holds_arrives_whole_and_odd_bytes_as_they_are(backend, sandboxes):
    programs = {
        "much": "for i in range(200): print('x' * 1023)",  # 200 KiB; a pipe holds 64
        "much_unread": "import sys\nprint(len(sys.argv))",  # does not read its 200 KiB of input
        "odd": "import sys\nsys.stdout.buffer.write(b'\\x00\\xed\\xa0\\xbd\\xff')",
        "odd_text": "print('\\x00\\ud83d')",
    }
    result = await (await sandboxes.get(backend, warm=2)).run(job(programs, [b"y" * (200 << 10)]))
    much, unread, odd, odd_text = result.outcomes
    assert much.stdout == b"".join(b"x" * 1023 + b"\n" for _ in range(200))
    assert (unread.status, unread.stdout) == ("ok", b"1\n")
    assert odd.stdout == b"\x00\xed\xa0\xbd\xff"
    assert odd_text.status == "error"
    assert b"UnicodeEncodeError" in odd_text.stderr


def _reset_peak_memory() -> int:
    """Forget this process's peak of resident memory; return what is resident now, in bytes."""
    Path("/proc/self/clear_refs").write_text("5")
    return _peak_memory()


def _peak_memory() -> int:
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))

import json
import math
import tracemalloc

import pytest

from deepgym import grading
from deepgym.exceptions import SandboxError, SandboxStarvedError
from deepgym.models import Case, Environment, Verifier
from deepgym.sandbox.base import Call, Exec, Job, JobResult, Limits, StepOutcome
from deepgym.sandbox.protocol import ResultReader, encode_job, parse_value
from deepgym.sandbox.runner.setup import Setup
from deepgym.sandbox.runner.wire import FrameBuffer, pack

CALLS = Job({"s.py": b"..."}, (Call("f", (1,)), Call("f", (2,))), module="s.py")
SUMMARY = {"done": True, "cpu_ms": 3.0, "wall_ms": 4.0, "peak_memory_bytes": 5, "notes": ["n"]}


def call_frame(number: int, status: str = "ok", value: bytes = b"1", error: str = "") -> bytes:
    header = {"step": number, "status": status, "error": error, "cpu_ms": 1.0, "wall_ms": 2.0}
    return pack(header, [value, b"out", b"err"])


def read(*frames: bytes, job: Job = CALLS) -> ResultReader:
    reader = ResultReader(job)
    reader.feed(b"".join(frames))
    return reader


def test_the_jail_reads_what_the_host_wrote():
    job = Job({"a/s.py": b"x", "b": b""}, (Call("f", (1,), {"k": None}), Exec(("p",), b"in", ("o",))), module="a/s.py")
    frames = FrameBuffer(10_000).feed(b"".join(encode_job(job, work="/work", tmp="/tmp", nproc=7)))
    (header, files), (call, request), (program, stdin) = frames
    setup = Setup.of(header)
    assert (setup.files, files, setup.module, setup.steps) == (("a/s.py", "b"), [b"x", b""], "a/s.py", 2)
    assert (setup.nproc, setup.limits.cpu_seconds, setup.environment["TMPDIR"]) == (7, 10.0, "/tmp")
    assert (call, request) == ({"kind": "call"}, [b'{"function": "f", "args": [1], "kwargs": {"k": null}}'])
    assert (program, stdin) == ({"kind": "exec", "argv": ["p"], "collect": ["o"], "cwd": "."}, [b"in"])


def test_outcomes_in_order_and_the_rest_not_run():
    result = read(pack({"ready": True}), call_frame(0, value=b"[1, 2]"), pack(SUMMARY)).result("mine")
    assert [outcome.status for outcome in result.outcomes] == ["ok", "not_run"]
    assert (result.outcomes[0].value, result.outcomes[0].stdout, result.outcomes[0].stderr) == ([1, 2], b"out", b"err")
    assert (result.cpu_ms, result.wall_ms, result.peak_memory_bytes, result.notes) == (3.0, 4.0, 5, ("mine", "n"))


def test_a_jail_lost_before_the_answer_started_is_the_sandboxs_failure():
    with pytest.raises(SandboxError, match="before the answer started"):
        read().result()


def test_a_jail_lost_while_the_answer_ran_is_judged():
    """Otherwise an answer that can break its jail could choose to have no verdict."""
    result = read(pack({"ready": True}), call_frame(0)).result()
    assert [outcome.status for outcome in result.outcomes] == ["ok", "signal"]


@pytest.mark.parametrize("frame", [pack({"starved": True}), call_frame(0, status="starved")])
def test_a_starved_answer_has_no_verdict(frame):
    with pytest.raises(SandboxStarvedError):
        read(pack({"ready": True}), frame, pack(SUMMARY)).result()


def test_files_that_did_not_fit_are_the_first_steps_outcome():
    result = read(pack({"refused": "disk_limit", "error": "no space"}), pack(SUMMARY)).result()
    assert [(o.status, o.error) for o in result.outcomes] == [("disk_limit", "no space"), ("not_run", "")]


@pytest.mark.parametrize("garbage", [b"\xff" * 8, pack({"step": 9, "status": "ok"}), pack({"step": 0}), b"\x00" * 9])
def test_a_broken_runner_is_the_sandboxs_failure(garbage):
    with pytest.raises(SandboxError):
        read(garbage)


@pytest.mark.parametrize(
    "text",
    [b"", b"[", b"nope", b'"\\ud83d"', b'["\\uD83D"]', b"[" * 100_000, b"1" * 5000, b"\xff", b'{"a":}'],
    ids=lambda text: repr(text[:10]),
)
def test_a_value_that_is_no_json_data_is_the_answers_error(text):
    outcome = read(pack({"ready": True}), call_frame(0, value=text), pack(SUMMARY)).result().outcomes[0]
    assert outcome.status == "error"
    assert outcome.value is None
    assert len(outcome.error) < 300


def answer_of(count: int, value: bytes) -> list[str]:
    """What becomes of `count` calls that all return this value."""
    job = Job({"s.py": b"..."}, tuple(Call("f") for _ in range(count)), module="s.py")
    frames = [call_frame(number, value=value) for number in range(count)]
    return [outcome.error for outcome in read(pack({"ready": True}), *frames, pack(SUMMARY), job=job).result().outcomes]


def environment_judged_by(judge) -> Environment:
    return Environment("e", "E", "", "function", "python", "f", Verifier(lambda rng: (), judge), "easy", "test")


def test_large_honest_values_pass():
    assert answer_of(10, b"[" + b"123456," * 99_999 + b"123456]") == [""] * 10
    assert answer_of(20, b'"\\u4e00' + b"x" * 500_000 + b'"') == [""] * 20
    # A grid of 400 x 400 characters, and 20,000 records: 0.8 and 0.9 MB of text each.
    assert answer_of(4, json.dumps([["."] * 400 for _ in range(400)]).encode()) == [""] * 4
    records = [{"id": number, "name": f"n{number}", "ok": True} for number in range(20_000)]
    assert answer_of(5, json.dumps(records).encode()) == [""] * 5


def test_a_value_is_parsed_when_its_outcome_is_looked_at_and_kept_by_nobody():
    """Twenty values of 130,000 x 2 dicts: one dict takes at least 64 bytes, so one value at least 16 MB and all 330."""
    many = b"[" + b'{"":{}},' * 130_000 + b"1]"
    job = Job({"s.py": b"..."}, tuple(Call("f") for _ in range(20)), module="s.py")
    frames = [call_frame(number, value=many) for number in range(20)]
    tracemalloc.start()
    try:
        outcomes = read(pack({"ready": True}), *frames, pack(SUMMARY), job=job).result().outcomes
        text, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        env = environment_judged_by(lambda case, outcome: len(outcome.value) == 130_001)
        assert grading.grade(env, [Case(str(n), group="main") for n in range(20)], JobResult(outcomes)).passed
        kept, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert text < 50 << 20
    assert 16_000_000 < most - text < 64 << 20
    assert kept - text < 1 << 20


def test_outcomes_are_a_sequence_like_any_other():
    outcomes = read(pack({"ready": True}), call_frame(0, value=b"[1]"), pack(SUMMARY)).result().outcomes
    one, rest = StepOutcome("ok", [1], b"out", b"err", cpu_ms=1.0, wall_ms=2.0), StepOutcome("not_run")
    assert outcomes == (one, rest)
    assert (outcomes[0], outcomes[-1], outcomes[-2], outcomes[:1]) == (one, rest, one, (one,))
    assert (list(outcomes), len(outcomes), one in outcomes, outcomes.index(rest)) == ([one, rest], 2, True, 1)
    assert repr(outcomes) == repr((one, rest))
    assert outcomes != (one,)
    with pytest.raises(IndexError):
        outcomes[2]


def test_values_keep_their_kind():
    assert parse_value(b'[1, 1.0, true, null, "\\ud83d\\ude00", -0.0]') == [1, 1.0, True, None, "😀", -0.0]
    assert type(parse_value(b"1.0")) is float
    assert math.isnan(parse_value(b"NaN"))


def test_an_error_text_is_one_printable_line():
    frame = call_frame(0, "error", b"", "a\nb\x00\ud83d" + "x" * 999)
    outcome = read(pack({"ready": True}), frame, pack(SUMMARY)).result().outcomes[0]
    assert outcome.error.startswith("a b\N{REPLACEMENT CHARACTER}\\ud83d")
    assert len(outcome.error) == 300


def test_a_limit_is_named_in_the_error():
    job = Job({}, (Exec(("p",)),), Limits(memory_bytes=2 << 20))
    header = {"step": 0, "status": "memory", "exit_code": -9, "error": "", "files": [], "cpu_ms": 1.0, "wall_ms": 1.0}
    (outcome,) = read(pack({"ready": True}), pack(header, [b"", b""]), pack(SUMMARY), job=job).result().outcomes
    assert (outcome.status, outcome.error) == ("memory", "more than 2 MiB of memory")

"""Verdicts from outcomes, with numbers worked out by hand."""

import asyncio
import concurrent.futures
import math
import sys
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from deepgym import grading
from deepgym.exceptions import InvalidScoreError, SandboxError, VerifierError
from deepgym.models import BatchResult, Case, Environment, ErrorType, RunResult, Verifier
from deepgym.sandbox.base import Call, Exec, Job, JobResult, Limits, StepOutcome

CASES = (
    Case("s1", 1, args=(1,), group="small"),
    Case("s2", 2, args=(2,), group="small"),
    Case("l1", 3, args=(3,), group="large"),
)


def environment(judge=lambda case, outcome: outcome.value == case.expected, **changes) -> Environment:
    fields = {
        "name": "echo",
        "title": "Echo",
        "task": "",
        "kind": "function",
        "language": "python",
        "entry": "f",
        "verifier": Verifier(lambda rng: CASES, judge),
        "difficulty": "easy",
        "domain": "test",
        "groups": {"small": 0.3, "large": 0.7},
    }
    return Environment(**(fields | changes))


def ok(*values) -> JobResult:
    return JobResult(tuple(StepOutcome("ok", value) for value in values), cpu_ms=5, wall_ms=9, peak_memory_bytes=7)


@pytest.mark.parametrize(
    ("values", "score", "passed"),
    [
        ((1, 2, 3), 1.0, True),
        ((1, 2, 0), 0.3, False),  # only the small group
        ((1, 0, 3), 0.7, False),  # one wrong small case costs the small group
        ((0, 0, 0), 0.0, False),
    ],
)
def test_a_group_earns_its_weight_together_or_not_at_all(values, score, passed):
    result = grading.grade(environment(), CASES, ok(*values))
    assert result.score == pytest.approx(score)
    assert (result.passed, result.has_verdict, result.error_type) == (passed, True, None)
    assert [case.passed for case in result.cases] == [v == c.expected for v, c in zip(values, CASES, strict=True)]
    assert (result.cpu_ms, result.wall_ms, result.peak_memory_bytes) == (5, 9, 7)


def test_part_scores_count_by_the_lowest_of_a_group():
    env = environment(lambda case, outcome: outcome.value)
    assert grading.grade(env, CASES, ok(0.5, 0.25, 1)).score == pytest.approx(0.3 * 0.25 + 0.7)


@pytest.mark.parametrize(
    ("status", "error_type"),
    [
        ("timeout", ErrorType.SOLUTION_TIMEOUT),
        ("exited", ErrorType.SOLUTION_ERROR),
        ("signal", ErrorType.SOLUTION_ERROR),
        ("memory", ErrorType.POLICY_SANDBOX_FAILURE),
        ("output_limit", ErrorType.POLICY_SANDBOX_FAILURE),
        ("process_limit", ErrorType.POLICY_SANDBOX_FAILURE),
        ("disk_limit", ErrorType.POLICY_SANDBOX_FAILURE),
    ],
)
def test_a_run_that_crashed_hung_or_broke_its_sandbox_scores_0_whatever_it_had_right(status, error_type):
    run = JobResult((StepOutcome("ok", 1), StepOutcome("ok", 2), StepOutcome(status, error="why")))
    result = grading.grade(environment(), CASES, run)
    assert (result.score, result.has_verdict, result.passed) == (0.0, True, False)
    assert (result.error_type, result.error_message) == (error_type, "why")
    assert result.error_type.is_answers_fault


def test_a_call_that_raises_costs_its_case_and_all_that_raise_are_an_error():
    some = JobResult((StepOutcome("error", error="ValueError: x"), StepOutcome("ok", 2), StepOutcome("ok", 3)))
    result = grading.grade(environment(), CASES, some)
    assert (result.score, result.error_type) == (pytest.approx(0.7), None)
    assert (result.cases[0].error_type, result.cases[0].detail) == (ErrorType.SOLUTION_ERROR, "ValueError: x")
    every = JobResult((StepOutcome("error", error="import: SyntaxError: bad"),) * 3)
    result = grading.grade(environment(), CASES, every)
    assert (result.score, result.error_type) == (0.0, ErrorType.SOLUTION_ERROR)
    assert "SyntaxError" in result.error_message


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        # 0.3 * the lower of the small group's two + 0.7 * the large group's
        ((True, np.bool_(True), np.bool_(False)), 0.3),
        ((np.float32(0.5), np.float64(1.0), np.int64(1)), 0.85),
        ((Fraction(1, 4), np.float16(1.0), np.uint8(0)), 0.075),
    ],
)
def test_numpys_scalars_are_numbers(scores, expected):
    given = dict(zip(("s1", "s2", "l1"), scores, strict=True))
    result = grading.grade(environment(lambda case, outcome: given[case.name]), CASES, ok(1, 2, 3))
    assert result.score == pytest.approx(expected)
    assert {type(case.score) for case in result.cases} == {float}
    assert {type(case.passed) for case in result.cases} == {bool}


@pytest.mark.parametrize(
    "score",
    [
        *(math.nan, math.inf, -0.1, 1.0001, None, "1", 2, [1], 10**400),
        *(
            1j,
            (1.0, "x"),
            Decimal(1),
            np.float32("nan"),
            np.float32(1.5),
            np.str_("1"),
            np.array([1.0]),
            np.complex64(1),
        ),
    ],
)
def test_a_score_that_is_none_is_an_error_and_not_a_score(score):
    with pytest.raises(InvalidScoreError, match="s1"):
        grading.grade(environment(lambda case, outcome: score), CASES, ok(1, 2, 3))


def test_a_verifier_that_raises_leaves_no_verdict_and_names_the_case():
    with pytest.raises(VerifierError, match="'s1': TypeError"):
        grading.grade(environment(lambda case, outcome: len(outcome.value) == 1), CASES, ok(1, 2, 3))
    with pytest.raises(VerifierError, match="'s1': SystemExit: 3"):
        grading.grade(environment(lambda case, outcome: sys.exit(3)), CASES, ok(1, 2, 3))


class Panic(BaseException):
    """As extension modules raise it."""

    def __str__(self) -> str:
        raise SystemExit(3)


@pytest.mark.parametrize(
    ("raised", "named"),
    [
        (Panic(), r"Panic \(its message cannot be shown\)"),
        (GeneratorExit("x"), "GeneratorExit: x"),
        (asyncio.CancelledError("x"), "CancelledError: x"),
    ],
)
def test_whatever_a_verifier_raises_leaves_no_verdict(raised, named):
    def fail(*_):
        raise raised

    with pytest.raises(VerifierError, match=f"echo: verifier.judge failed on case 's1': {named}"):
        grading.grade(environment(fail), CASES, ok(1, 2, 3))
    with pytest.raises(VerifierError, match=f"echo: verifier.cases failed with seed 0: {named}"):
        grading.hidden_cases(environment(verifier=Verifier(fail, fail)))
    with pytest.raises(VerifierError, match=f"echo: verifier.examples failed: {named}"):
        grading.shown_cases(environment(verifier=Verifier(fail, fail, fail)))


def test_ctrl_c_ends_a_command_but_in_a_thread_it_is_the_verifiers_own():
    def fail(*_):
        raise KeyboardInterrupt

    env = environment(fail)
    with pytest.raises(KeyboardInterrupt):
        grading.grade(env, CASES, ok(1, 2, 3))
    with (
        concurrent.futures.ThreadPoolExecutor(1) as thread,
        pytest.raises(VerifierError, match="'s1': KeyboardInterrupt"),
    ):
        thread.submit(grading.grade, env, CASES, ok(1, 2, 3)).result()


def test_a_value_nested_too_deep_never_reaches_the_judge():
    deep: object = 1
    for _ in range(5_000):
        deep = [deep]
    seen = []
    env = environment(lambda case, outcome: seen.append(outcome.value) or True)
    result = grading.grade(env, CASES, ok(deep, [[2]], {"a": 3}))
    assert seen == [[[2]], {"a": 3}]
    assert result.score == pytest.approx(0.7)
    assert "nested deeper" in result.cases[0].detail


def test_a_run_with_missing_outcomes_is_the_sandboxs_fault():
    with pytest.raises(SandboxError, match="2 outcomes for 3 steps"):
        grading.grade(environment(), CASES, ok(1, 2))


def test_details_keep_hidden_answers_and_show_the_examples():
    hidden = grading.grade(environment(), CASES, ok(0, 2, 3)).cases[0]
    assert hidden.detail == "wrong output"
    shown = (Case("e", 10**5000, args=(1,), hidden=False),)
    result = grading.grade(environment(), shown, ok([1, "\ud800", 10**6000]))
    assert result.score == 0.0
    assert result.cases[0].detail.startswith("got [1, '\\ud800', an integer of")
    result.cases[0].detail.encode()


def test_messages_are_one_line_of_valid_unicode():
    run = JobResult((StepOutcome("signal", error="a\nb \ud800" + "x" * 9_000),) + (StepOutcome("not_run"),) * 2)
    message = grading.grade(environment(), CASES, run).error_message
    assert message.startswith("a b ?x")
    assert len(message) <= 300
    message.encode()


def test_a_function_job_holds_inputs_but_no_expected_output():
    secret = Case("c", "the-secret", args=([1],), kwargs={"k": 2}, group="small")
    job = grading.build_job(environment(files={"lib.py": b"y"}), "def f(): ...", (secret,))
    assert job == Job(
        {"lib.py": b"y", "solution.py": b"def f(): ..."}, (Call("f", ([1],), {"k": 2}),), Limits(), "solution.py"
    )
    assert "the-secret" not in repr(job)


def test_a_program_job_has_a_folder_for_each_case():
    env = environment(kind="files", language="shell", entry="run.sh", files={"run.sh": b"old", "data": b"1"})
    cases = (Case("a", "x", stdin=b"in", argv=("-v",), collect=("out",)), Case("b", "y", files={"data": b"2"}))
    job = grading.build_job(env, "echo", cases)
    assert job.files == {
        "case_000/run.sh": b"echo",
        "case_000/data": b"1",
        "case_001/run.sh": b"echo",
        "case_001/data": b"2",
    }
    assert job.steps == (
        Exec(("bash", "run.sh", "-v"), b"in", ("out",), "case_000"),
        Exec(("bash", "run.sh"), b"", (), "case_001"),
    )


@pytest.mark.parametrize(
    ("answer", "reason", "changes"),
    [
        ("", "no code", {}),
        (" \n", "no code", {}),
        ("x" * 500_001, "500001 characters", {}),
        ("x = 1", "not a bundle", {"answer": "bundle"}),
        ("=== other.py ===\n", "has no file 'solution.py'", {"answer": "bundle"}),
        ("=== solution.py ===\n=== a ===\n=== a/b ===\n", "both a file and a folder: \\['a'\\]", {"answer": "bundle"}),
    ],
)
def test_an_answer_that_cannot_run_is_refused(answer, reason, changes):
    with pytest.raises(grading.RejectedAnswer, match=reason):
        grading.build_job(environment(**changes), answer, CASES)
    result = grading.rejected(CASES, "no")
    assert (result.score, result.has_verdict, result.error_type) == (0.0, True, ErrorType.SOLUTION_ERROR)
    assert [case.score for case in result.cases] == [0.0] * 3


def test_a_lone_surrogate_becomes_bytes():
    job = grading.build_job(environment(), "x = '\ud800'", CASES)
    assert job.files["solution.py"] == b"x = '\xed\xa0\x80'"


@pytest.mark.parametrize(
    ("cases", "complaint"),
    [
        ([Case("a", group="small")], r"groups \['small'\], env.toml \['large', 'small'\]"),
        ([Case("a", group="small"), Case("a", group="large")], "not unique"),
        ([*CASES, Case("x", group="other")], "groups"),
        ([*CASES, Case("x", group="small", stdin=b"1")], "args and kwargs only"),
        ([*CASES, Case("x", group="small", hidden=False)], "hidden"),
        ([], "groups"),
        ([1, 2], "verifier.cases: a case is of type int, not Case"),
        ([*CASES, Case("x", group="small", args=({1},))], "verifier.cases: case 'x': Object of type set is not JSON"),
        ([*CASES, Case("x", group="small", args=5)], "case 'x': args, argv and collect are tuples"),
        ([*CASES, Case("x", group="small", kwargs=[1])], "case 'x': "),
        ([*CASES, Case("x", group="small", files={"../y": b""})], "case 'x': '../y' is not a plain relative path"),
        ([*CASES, Case("x", group="small", stdin="1")], "case 'x': stdin and what files hold are bytes"),
        ([*CASES, Case("x", group="small", argv=(1,))], "case 'x': argv holds text only"),
        ([*CASES, Case("x", group="small", files=["y"])], "case 'x': dictionary update"),
        ([*CASES, Case([], group="small")], "name and group are text"),
        (None, "TypeError"),
    ],
)
def test_cases_that_do_not_fit_are_the_verifiers_fault(cases, complaint):
    env = environment(verifier=Verifier(lambda rng: cases, lambda case, outcome: True))
    with pytest.raises(VerifierError, match=complaint):
        grading.hidden_cases(env)


def test_the_seed_makes_the_cases():
    env = environment(
        verifier=Verifier(lambda rng: [Case(str(rng.random()), group=g) for g in ("small", "large")], max)
    )
    assert grading.hidden_cases(env) == grading.hidden_cases(env)
    assert grading.hidden_cases(env) != grading.hidden_cases(env.with_seed(1))


@pytest.mark.parametrize(("kind", "entry"), [("function", ""), ("function", "f()"), ("program", "../x.py")])
def test_an_entry_that_cannot_be_run_is_no_environment(kind, entry):
    with pytest.raises(ValueError, match="echo: entry"):
        environment(kind=kind, entry=entry)


def test_weights_have_to_sum_to_one():
    with pytest.raises(ValueError, match="sum to 1"):
        environment(groups={"small": 0.3})


def test_a_result_cannot_have_a_score_without_a_verdict():
    with pytest.raises(ValueError, match="has_verdict"):
        RunResult(0.0, False, False)
    with pytest.raises(ValueError, match="has_verdict"):
        RunResult(math.nan, False, True)
    none = grading.no_verdict(ErrorType.SANDBOX_ERROR, "gone")
    assert math.isnan(none.score)
    assert math.isnan(none.pass_rate)


def test_a_batch_never_counts_no_verdict_as_0():
    none = grading.no_verdict(ErrorType.TIMEOUT, "")
    batch = BatchResult((RunResult(1.0, True, True), none, RunResult(0.5, False, True)))
    assert batch.mean_score == pytest.approx(0.75)
    assert (batch.pass_rate, batch.no_verdict_count, len(batch)) == (0.5, 1, 3)
    assert math.isnan(batch.scores[1])
    assert math.isnan(BatchResult((none,)).mean_score)

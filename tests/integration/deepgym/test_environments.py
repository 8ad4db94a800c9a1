"""The built-in environments with the real local sandbox: references, wrong answers, seeds, hostile data."""

import math
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from deepgym import DeepGym, ErrorType, list_environments, load_environment
from deepgym.authoring import check_environment, create_environment, stub_answers
from deepgym.folder import EnvironmentFolder
from deepgym.grading import hidden_cases, shown_cases
from deepgym.registry import find_folder
from deepgym.sandbox.base import StepOutcome

NAMES = list_environments()
# What hostile answers return and print.
VALUES = (
    *(
        None,
        True,
        False,
        0,
        -1,
        1.5,
        math.nan,
        math.inf,
        10**4500,
        "",
        "x",
        "1/0",
        "-0/0",
        "9" * 5000,
        "\ud800",
        [],
        {},
    ),
    *([0], [None], [[]], [1, 2], [0, [0]], [True, False], ["1/2"] * 14, [math.nan] * 3, {"a": 1}, [[1, 2], [3, "x"]]),
    *([10**400, [10**400]], [0, []], [-1, -1], list(range(40)), [0.0, 1.0]),
)
BYTES = (b"", b"\n", b"\x00\xff\xed\xa0\x80", b"0\n", b"nan", b"9" * 5_000, b"1 " * 100, "\u0663\u00b2".encode())


@pytest.fixture(scope="module")
def dg() -> Iterator[DeepGym]:
    with DeepGym(mode="local") as gym:
        yield gym


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_passes(dg, name):
    folder, env = find_folder(name), load_environment(name)
    result = dg.run(env, folder.reference())
    failed = [(case.name, case.detail) for case in result.cases if not case.passed]
    assert (result.score, result.passed, result.error_type, failed) == (1.0, True, None, [])
    assert dg.run(env, folder.reference(), cases="shown").passed
    # Half of the time leaves room for slower machines.
    assert result.cpu_ms < 1000 * env.limits.cpu_seconds / 2


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_wrong_answers_earn_little(dg, name):
    env = load_environment(name)
    for label, answer in find_folder(name).wrong().items():
        result = dg.run(env, answer)
        limit = 0.1 if label.startswith(("constant", "empty")) else 0.49
        assert result.has_verdict, label
        assert not result.passed, label
        assert result.score <= limit, label
        if label == "too_slow":
            assert result.error_type == ErrorType.SOLUTION_TIMEOUT


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_check_of_a_built_in_environment_finds_nothing(dg, name):
    """Also: empty, stub and constant answers earn 0, and three runs of the reference agree."""
    assert check_environment(dg, find_folder(name)).problems == ()


@pytest.mark.parametrize("name", NAMES)
def test_cases_follow_the_seed_and_judges_survive_any_answer(name):
    env = load_environment(name)
    cases = hidden_cases(env)
    # One group's cases never all want the same output, so that no constant earns the group.
    for group in env.groups:
        assert len({repr(case.expected) for case in cases if case.group == group}) > 1
    assert cases == hidden_cases(env)
    assert cases != hidden_cases(env.with_seed(1))
    for case in random.Random(0).sample(cases, 4) + list(shown_cases(env)):
        outcomes = [StepOutcome("ok", value) for value in VALUES] if env.kind == "function" else []
        files = dict.fromkeys(case.collect, b"\xff")
        outcomes += [StepOutcome("ok", stdout=data, files=files) for data in BYTES]
        for outcome in outcomes:
            assert env.verifier.judge(case, outcome) in (True, False)


@pytest.fixture
def folder(tmp_path) -> Path:
    return create_environment(tmp_path, "mine", "function")


@pytest.mark.parametrize("kind", ["function", "program", "files"])
def test_a_new_environment_passes_its_check(dg, tmp_path, kind):
    folder = create_environment(tmp_path, "mine", kind)
    report = check_environment(dg, EnvironmentFolder(folder))
    assert report.problems == ()
    assert report.scores["reference, run 3"] == 1.0
    assert report.scores["wrong/off_by_one"] == 0.0
    assert {f"generated: {name}" for name in stub_answers(load_environment(folder))} < set(report.scores)


def test_a_check_finds_what_makes_a_bad_reward(dg, folder):
    verifier = folder / "verifier.py"
    # A judge that takes every int: the reference passes, and so do the constant 0 and the wrong answer.
    text = verifier.read_text().replace("same_data(outcome.value, case.expected)", "isinstance(outcome.value, int)")
    verifier.write_text(text.replace("rng.randint(-9, 9)", "3").replace("rng.randint(1, 99)", "5"))
    problems = "\n".join(check_environment(dg, EnvironmentFolder(folder)).problems)
    (folder / "reference.py").write_text("def total(numbers):\n    return None\n")
    broken = check_environment(dg, EnvironmentFolder(folder))
    assert "generated: always 0 earns 1.000" in problems
    assert "wrong/off_by_one earns 1.000" in problems
    assert "the seed changes nothing" in problems
    assert "generated: empty" not in problems
    assert broken.problems[0] == "reference, run 1 scores 0.000: case 'small 0': wrong output"

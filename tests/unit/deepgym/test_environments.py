"""The built-in environments as data; `tests/integration/deepgym/test_environments.py` runs their answers."""

import hashlib
from collections import Counter

import pytest

from deepgym import list_environments, load_environment
from deepgym.grading import hidden_cases, shown_cases
from deepgym.registry import find_folder
from deepgym.sandbox.base import StepOutcome

NAMES = list_environments()
PRINTING = [name for name in NAMES if load_environment(name).kind != "function"]


def test_there_are_enough_of_each_sort():
    envs = [load_environment(name) for name in NAMES]
    assert len(envs) >= 24
    assert "coin_change" in NAMES
    kinds, difficulties = Counter(env.kind for env in envs), Counter(env.difficulty for env in envs)
    assert all(kinds[kind] >= 5 for kind in ("function", "program", "files"))
    assert all(difficulties[difficulty] >= 4 for difficulty in ("easy", "medium", "hard"))
    assert len({env.title for env in envs}) == len(envs)


def test_no_two_share_a_verifier():
    sources = {name: (find_folder(name).path / "verifier.py").read_bytes() for name in NAMES}
    assert len({hashlib.sha256(source).digest() for source in sources.values()}) == len(NAMES)
    verifiers = [load_environment(name).verifier for name in NAMES]
    assert len({id(verifier.cases) for verifier in verifiers}) == len({id(v.judge) for v in verifiers}) == len(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_folder_is_complete(name):
    folder, env = find_folder(name), load_environment(name)
    assert folder.reference().strip()
    wrong = folder.wrong()
    assert {"constant", "empty", "off_by_one", "too_slow"} <= set(wrong)
    assert wrong["empty"] == ""
    assert "fenced code block" in env.task
    assert env.domain
    assert env.tags
    assert shown_cases(env)


@pytest.mark.parametrize("name", PRINTING)
def test_the_last_line_may_end_without_a_newline(name):
    """Programs end with `write("\\n".join(lines))` as often as with `print`."""
    env = load_environment(name)
    for case in (case for case in hidden_cases(env) if isinstance(case.expected, str)):
        line = case.expected.removesuffix("\n")
        for text in (line, line + "\n"):
            assert env.verifier.judge(case, StepOutcome("ok", stdout=text.encode())) == 1, (case.name, text)


@pytest.mark.parametrize("name", PRINTING)
def test_a_program_is_told_that_its_exit_status_counts(name):
    assert "exit status 0" in load_environment(name).task

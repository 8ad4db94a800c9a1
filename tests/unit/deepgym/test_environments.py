"""The built-in environments as data; `tests/integration/deepgym/test_environments.py` runs their answers."""

import hashlib
from collections import Counter

import pytest

from deepgym import list_environments, load_environment
from deepgym.grading import shown_cases
from deepgym.registry import find_folder

NAMES = list_environments()


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

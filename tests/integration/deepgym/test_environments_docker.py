"""The built-in environments on the docker backend: the same verdicts as the local one gives."""

from collections.abc import Iterator

import pytest

from deepgym import DeepGym, list_environments, load_environment
from deepgym.registry import find_folder

# One of each kind belongs to `make test`: a container per answer costs about a second.
SHORT = ("coin_change", "log_report", "word_frequency")
NAMES = [name if name in SHORT else pytest.param(name, marks=pytest.mark.slow) for name in list_environments()]


@pytest.fixture(scope="module")
def dg(engine_url) -> Iterator[DeepGym]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", engine_url)
        with DeepGym(mode="docker") as gym:
            assert gym.sandbox_name == "docker"
            yield gym


def test_the_short_form_has_one_of_each_kind():
    kinds = {name: load_environment(name).kind for name in list_environments()}
    assert {kinds[name] for name in SHORT} == set(kinds.values())


@pytest.mark.parametrize("name", NAMES)
def test_the_reference_passes(dg, name):
    result = dg.run(load_environment(name), find_folder(name).reference())
    assert (result.score, result.passed, result.error_type) == (1.0, True, None)


@pytest.mark.slow
@pytest.mark.parametrize("name", list_environments())
def test_wrong_answers_earn_little(dg, name):
    env = load_environment(name)
    for label, answer in find_folder(name).wrong().items():
        result = dg.run(env, answer)
        assert result.has_verdict, label
        assert not result.passed, label
        assert result.score <= (0.1 if label.startswith(("constant", "empty")) else 0.49), label

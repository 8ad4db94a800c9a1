"""Answers that try to be scored without being right, through the whole of deepgym."""

import functools

import pytest

from deepgym.core import DeepGym
from deepgym.models import RunResult
from deepgym.registry import load_environment
from deepgym.sandbox.docker.sandbox import DockerSandbox
from deepgym.sandbox.local.sandbox import LocalSandbox
from tests.integration.deepgym.attacks import forging
from tests.integration.deepgym.attacks.forging import Forgery


@pytest.fixture(scope="session")
def gyms(engine_url):
    """Backend name -> a DeepGym on it."""
    with (
        DeepGym(sandbox=LocalSandbox(2), max_parallel=2) as local,
        DeepGym(sandbox=DockerSandbox(slots=2, url=engine_url), max_parallel=2) as docker,
    ):
        yield {"local": local, "docker": docker}


@pytest.fixture(scope="session")
def results_of(gyms):
    """Backend name -> (name of a forgery or an odd answer -> its result), each backend's run as one batch."""
    answers = {forgery.name: forgery.code for forgery in forging.ALL} | forging.ODD
    environment = load_environment("coin_change")

    @functools.cache
    def run_all(backend: str) -> dict[str, RunResult]:
        return dict(zip(answers, gyms[backend].run_batch(environment, list(answers.values())), strict=True))

    return run_all


@pytest.mark.parametrize("backend", ["local", "docker"])
@pytest.mark.parametrize("name", [*(forgery.name for forgery in forging.ALL), *forging.ODD])
def test_earns_nothing(name, backend, results_of):
    result = results_of(backend)[name]
    assert result.has_verdict
    assert result.score == 0.0
    assert not any(case.passed for case in result.cases)


@pytest.mark.parametrize("forgery", forging.ALL, ids=lambda forgery: forgery.name)
def test_fools_a_grader_that_runs_the_answer_in_its_own_process(forgery: Forgery, tmp_path):
    assert forgery.fools(tmp_path)


@pytest.mark.parametrize("backend", ["local", "docker"])
def test_a_right_answer_is_right_after_all_of_them(backend, gyms, results_of):
    results_of(backend)
    environment = load_environment("coin_change")
    right = (
        "def coin_change(coins, amount):\n"
        "    best = [0] + [amount + 1] * amount\n"
        "    for coin in coins:\n"
        "        for total in range(coin, amount + 1):\n"
        "            best[total] = min(best[total], best[total - coin] + 1)\n"
        "    return best[amount] if best[amount] <= amount else -1\n"
    )
    assert gyms[backend].run(environment, right).score == 1.0

"""Runs that learn: every estimator, one and two passes over each rollout, PPO with a critic and a served reward model.

The task: a random model, which says a digit once in ten tokens, is to say digits only. Held-out prompts are scored
before the first and after the last update.
"""

import json
import os
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.integration.toy import make_digit_judge
from tests.integration.training import (
    Inputs,
    Run,
    free_ports,
    marked_environment,
    rows,
    start,
    start_training,
    write_inputs,
)
from tests.models import make_tiny_llama
from tests.proofs import keep

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]

RUN_SECONDS, SERVER_SECONDS = 900.0, 300.0  # on a busy machine; alone a run takes about two minutes
LEARNED = 0.8
ESTIMATORS = ("gae", "reinforce", "reinforce_baseline", "rloo", "group_norm", "dr_grpo")
# 64 prompts, 16 of them and 8 samples of each per step: 4 steps an episode.
SIZES = {
    "rollout__batch_size": 16,
    "rollout__n_samples_per_prompt": 8,
    "rollout__max_new_tokens": 4,
    "rollout__micro_batch_size": None,
    "train__micro_batch_size": None,
    "train__dynamic_batch_enable": True,
    "train__max_tokens_per_gpu": 2048,
    "train__batch_size": 128,
    "train__num_episodes": 2,
    "actor__adam__lr": 3e-3,
    "actor__lr_scheduler": "constant",
    "eval__at_start": True,
    "eval__n_samples_per_prompt": 8,
    "eval__temperature": 1.0,
    "logger__num_rollouts_stored": 2,
}
CRITIC = {"critic__adam__lr": 1e-3, "critic__lr_scheduler": "constant"}


@pytest.fixture(scope="module")
def task(tmp_path_factory) -> Inputs:
    folder = tmp_path_factory.mktemp("task")
    held_out = [f'{{"input": "tell {number}", "label": ""}}\n' for number in range(16)]
    (folder / "held_out.jsonl").write_text("".join(held_out))
    return write_inputs(folder, make_tiny_llama(folder / "model"), num_prompts=64)


def learn(task: Inputs, folder: Path, **changes: object) -> tuple[float, float]:
    """Run, and return the held-out scores before and after; they are kept."""
    before, after = scores_of_run(task, folder, **changes)
    keep_scores(folder, before, after)
    return before, after


def scores_of_run(task: Inputs, folder: Path, **changes: object) -> tuple[float, float]:
    """Run, and return the held-out scores before and after."""
    flags = task.flags(folder / "run", **SIZES | {"eval__dataset": task.folder / "held_out.jsonl"} | changes)
    with marked_environment() as environment:
        run = start_training(flags, folder / "log", environment)
        assert run.wait(RUN_SECONDS) == 0, run.stderr[-4000:] + run.stdout[-2000:]
    scores = [row["eval_default_pass1"] for row in rows(folder / "run") if "eval_default_pass1" in row]
    assert len(scores) == 2
    return scores[0], scores[1]


def keep_scores(folder: Path, before: float, after: float) -> None:
    """`make test-all` leaves them in docs/proofs/learning, under the name of the test that runs."""
    name = os.environ["PYTEST_CURRENT_TEST"].split("::")[1].split(" ")[0]
    (folder / "scores.json").write_text(json.dumps({"before": round(before, 4), "after": round(after, 4)}) + "\n")
    keep(f"learning/{name}", [folder / "scores.json"])


def assert_learned(scores: tuple[float, float]) -> None:
    before, after = scores
    assert before < 0.3
    assert after >= LEARNED


def test_a_policy_learns(task, tmp_path):
    """The short form: one estimator, with dynamic sampling, which drops groups whose samples are all digits."""
    changes = {"algo__dynamic_filtering_enable": True, "algo__advantage__estimator": "reinforce_baseline"}
    assert_learned(learn(task, tmp_path, **changes, train__seed=1))


@pytest.mark.slow
def test_without_a_learning_rate_nothing_is_learned(task, tmp_path):
    before, after = learn(task, tmp_path, actor__adam__lr=0.0, train__seed=1, train__max_steps=2)
    # 16 prompts x 8 samples x 4 tokens, a tenth of them digits: their share varies by sqrt(0.1 * 0.9 / 512) = 0.013.
    assert abs(after - before) < 6 * 0.013


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("epochs", [1, 2])
@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_every_estimator_learns(task, tmp_path, estimator, epochs, seed):
    changes = CRITIC if estimator == "gae" else {}
    scores = learn(
        task, tmp_path, algo__advantage__estimator=estimator, train__max_epochs=epochs, train__seed=seed, **changes
    )
    assert_learned(scores)


@contextmanager
def served(model: Path, log: Path) -> Iterator[str]:
    """The address of a `serve_rm` of the reward model."""
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "openrlhf.cli.serve_rm", "--reward.model_name_or_path", str(model)]
    command += ["--port", str(port), "--ds.param_dtype", "fp32", "--device", "cpu", "--data.max_len", "64"]
    with marked_environment() as environment:
        server = start(command, log, environment)
        wait_until_healthy(server, f"http://127.0.0.1:{port}/health")
        yield f"http://127.0.0.1:{port}/get_reward"
        server.process.terminate()
        assert server.wait(60) == 0, server.stderr[-2000:]


def wait_until_healthy(server: Run, address: str) -> None:
    deadline = time.monotonic() + SERVER_SECONDS
    while time.monotonic() < deadline:
        assert server.process.poll() is None, server.stderr[-4000:]
        try:
            with urllib.request.urlopen(address, timeout=5) as answer:
                assert answer.status == 200
                return
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            time.sleep(1)
    raise AssertionError(f"{address} did not answer within {SERVER_SECONDS:.0f} s: {server.stderr[-2000:]}")


PPO = CRITIC | {
    "algo__advantage__estimator": "gae",
    "algo__kl__init_coef": 0.001,
    "critic__freezing_steps": 1,
    "critic__save_value_network": True,
    "train__num_episodes": 4,
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_ppo_learns_with_a_critic_and_a_served_reward_model(task, tmp_path, seed):
    """The reward model looks at the last token only: 1 for a digit."""
    with served(make_digit_judge(tmp_path / "judge"), tmp_path / "server") as address:
        assert_learned(learn(task, tmp_path, **PPO, reward__remote_url=address, train__seed=seed))
    first, second, *_ = (row for row in rows(tmp_path / "run") if row["step"] > 0)
    assert "train/actor_grad_norm" not in first  # the policy waits for the critic in its first step
    assert second["train/actor_grad_norm"] > 0
    assert first["train/critic_loss"] > 0
    assert (tmp_path / "run_critic/config.json").is_file()


@pytest.mark.slow
def test_ppo_learns_with_reward_models_beside_it(task, tmp_path):
    """The same judge twice, in the run itself, so a digit at the end gives 2. Evaluation is graded by it too."""
    judge = make_digit_judge(tmp_path / "judge")
    scores = learn(
        task,
        tmp_path,
        **PPO,
        reward__remote_url=None,
        reward__model_name_or_path=f"{judge},{judge}",
        critic__model_name_or_path=task.model,
        train__seed=1,
    )
    before, after = scores
    assert before < 2 * 0.3  # two judges of weight 1
    assert after >= 2 * LEARNED

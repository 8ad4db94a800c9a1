"""A whole asynchronous run of `train_ppo_ray` on a tiny model: generation ahead of training, nothing lost."""

import pytest

from tests.integration.training import rows, train, write_inputs
from tests.models import make_tiny_llama

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(600)]

# Answers after 0.05 to 0.35 s, by the length of the reply, as an environment would.
REWARD = """
import time

def reward_func(queries, prompts, labels):
    replies = [q[len(p):] for q, p in zip(queries, prompts)]
    time.sleep(0.05 + 0.3 * (len(replies[0]) % 7) / 7)
    return [sum(c.isdigit() for c in reply) / max(1, len(reply)) for reply in replies]
"""


def test_an_asynchronous_run_trains_every_prompt_once_within_its_bound(tmp_path):
    inputs = write_inputs(tmp_path, make_tiny_llama(tmp_path / "model"), num_prompts=24)
    inputs.reward.write_text(REWARD)
    (tmp_path / "held_out.jsonl").write_text('{"input": "say", "label": "x"}\n')
    flags = inputs.flags(
        tmp_path / "run",
        train__async_enable=True,
        train__async_queue_size=2,
        train__max_staleness=3,
        algo__advantage__is_correction_enable=True,
        eval__dataset=tmp_path / "held_out.jsonl",
        eval__steps=3,
        eval__n_samples_per_prompt=2,
        logger__num_rollouts_stored=16,
        ckpt__path=tmp_path / "saves",
        ckpt__save_steps=4,
    )
    run = train(flags, tmp_path / "log")
    assert run.process.returncode == 0, run.stderr[-3000:]
    steps = rows(tmp_path / "run")
    # 24 prompts of 4 samples, in steps of 4 prompts.
    assert sum(row["rollout/num_samples"] for row in steps) == 96
    assert [row["step"] for row in steps] == [1, 2, 3, 4, 5, 6]
    assert max(row["async/staleness_max"] for row in steps) <= 3
    assert max(row["async/staleness_max"] for row in steps) > 0  # generation really was ahead
    assert all(0 <= row["async/overlap"] <= 1 for row in steps)
    assert all("eval_default_pass1" in row for row in steps if row["step"] % 3 == 0)
    # The first batch is of the policy that trains on it, so trainer and engine agree; later ones are of older ones.
    assert steps[0]["async/staleness_max"] == 0
    assert steps[0]["train/logprobs_diff_max"] < 1e-4 < steps[-1]["train/logprobs_diff_max"]
    assert (tmp_path / "saves" / "global_step4" / "job.json").is_file()

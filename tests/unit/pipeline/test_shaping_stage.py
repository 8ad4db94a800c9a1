"""What the pipeline does to rewards between verdict and advantage (public case c2, its pipeline part)."""

import numpy as np
import pytest

from openrlhf.pipeline.ppo_sync import train
from openrlhf.pipeline.report import StepReport
from openrlhf.pipeline.stages import shape
from openrlhf.rl.packing import collate
from openrlhf.types import Turn
from tests.unit.rl import samples


def shaped(run) -> dict[bool, set[float]]:
    """Trained returns of truncated and of complete samples. Sample 0 of each group is the truncated one."""
    found: dict[bool, set[float]] = {True: set(), False: set()}
    for own in run.policy.steps[0]:
        for batch in own:
            for row, start, end in zip(batch.rows, batch.cu_seqlens[:-1], batch.cu_seqlens[1:], strict=True):
                if row >= 0:
                    actions = batch.action_mask[start:end]
                    found[bool(row % 4 == 0)] |= {round(x, 5) for x in batch.returns[start:end][actions].tolist()}
    return found


@pytest.mark.parametrize(("coef", "expected"), [(0.5, 0.5), (-0.5, -0.5), (None, 1.0)])
def test_case_c2_a_truncated_sample_is_penalised(rig, coef, expected):
    changes = {"algo.advantage.estimator": "reinforce", "reward.stop_properly_penalty_coef": coef}
    run = rig(changes, prompts=2, reward=lambda prompt, index: 1.0)
    train(run.job)
    assert shaped(run) == {True: {expected}, False: {1.0}}
    (row,) = run.rows()
    assert row["rollout/truncated_rate"] == 0.25
    assert row["rollout/reward_mean"] == 1.0  # the verdict itself is reported as it was


def test_the_overlong_buffer_counts_sampled_tokens(rig):
    # 3 sampled tokens of at most 3, buffer 2: (3 - (3 - 2)) / 2 * 0.5 = 0.5 off.
    changes = {"reward.overlong_buffer_len": 2.0, "reward.overlong_penalty_factor": 0.5}
    run = rig(changes | {"algo.advantage.estimator": "reinforce"}, prompts=2, reward=lambda prompt, index: 1.0)
    train(run.job)
    assert shaped(run) == {True: {0.5}, False: {0.5}}


def test_the_running_mean_goes_on_from_step_to_step_and_is_saved(rig):
    changes = {"reward.normalize_enable": True, "algo.advantage.estimator": "reinforce"}
    run = rig(changes, prompts=4, reward=lambda prompt, index: float(index))
    train(run.job)
    # 16 rewards 0, 1, 2, 3 in equal parts: mean 1.5, variance 1.25.
    second = run.rows()[1]
    assert second["rollout/reward_running_mean"] == pytest.approx(1.5)
    assert second["rollout/reward_running_std"] == pytest.approx(np.sqrt(1.25))
    state = run.job.state_dict()
    fresh = rig(changes, prompts=4)
    fresh.job.load_state_dict(state)
    assert fresh.job.normaliser.count == 16
    assert fresh.job.normaliser.mean == pytest.approx(1.5)


def test_rewards_of_turns_are_shaped_with_their_sample(rig):
    run = rig({}, prompts=1)
    # Turns of 8 and 8 and the default range (-10, 10): 16 -> 10, so 5 and 5.
    part = samples.segment([1, 2, 3, 4], [0, 1, 0, 1], turns=(Turn(1, 2, 8.0), Turn(3, 4, 8.0)))
    batch = collate([samples.RolloutGroup("g", (samples.rollout("g", 0, 16.0, part),))])
    shape(run.job, batch, StepReport())
    assert (batch.rewards.tolist(), batch.turn_rewards.tolist()) == ([10], [[0, 5, 0, 5]])

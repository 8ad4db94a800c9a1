"""Raw rewards on their way to the advantages."""

import math

import numpy as np
import pytest

from openrlhf.config.reward import RewardConfig
from openrlhf.rl.metrics import rollout_metrics
from openrlhf.rl.packing import collate
from openrlhf.rl.running_normaliser import RunningNormaliser
from openrlhf.rl.shaping import clip_rewards, shape_rewards
from tests.unit.rl import samples


def test_clip():
    assert clip_rewards(np.array([-30.0, 0.5, 12.0]), (-10, 10)).tolist() == [-10, 0.5, 10]
    assert np.isnan(clip_rewards(np.array([math.nan]), (-10, 10))).all()


def shaped(batch, limit=4, normaliser=None, **settings):
    return shape_rewards(batch, RewardConfig(**settings), limit, normaliser)


def test_nothing_but_the_clip_by_default():
    batch = samples.experience([[0, 1]] * 3, [1.0, -20.0, 3.0])
    rewards, metrics = shaped(batch)
    assert rewards.tolist() == [1, -10, 3]
    assert rewards.dtype == np.float32
    # Mean (1 - 10 + 3)/3 = -2, variance (9 + 64 + 25)/3.
    assert metrics == pytest.approx(
        {
            "rollout/reward_clipped_rate": 1 / 3,
            "rollout/shaped_reward_mean": -2.0,
            "rollout/shaped_reward_std": math.sqrt(98 / 3),
        }
    )
    assert batch.rewards.tolist() == [1, -20, 3]


def test_order_of_the_parts():
    # Limit 4, buffer 2, factor 4. Lengths 2, 3, 4 -> penalties 0, -2, -4; rewards 8, 12, 4 -> 8, 10, 0.
    # The third is truncated, factor 0.5: 0 stays. Clip to 9: 8, 9, 0. Mean 17/3, so the last is the lowest.
    batch = samples.experience([[0, 1, 1, 0, 0], [0, 1, 1, 1, 0], [0, 1, 1, 1, 1]], [8.0, 12.0, 4.0])
    batch.truncated[2] = True
    settings = {
        "overlong_buffer_len": 2,
        "overlong_penalty_factor": 4.0,
        "stop_properly_penalty_coef": 0.5,
        "clip_range": (-10.0, 9.0),
    }
    rewards, metrics = shaped(batch, **settings)
    assert rewards.tolist() == [8, 9, 0]
    assert (metrics["rollout/overlong_penalty"], metrics["rollout/overlong_rate"]) == pytest.approx((-2, 2 / 3))
    assert metrics["rollout/stop_penalty_rate"] == 0.0
    running = RunningNormaliser()
    rewards, metrics = shaped(batch, normaliser=running, **settings)
    # Variance of 8, 9, 0: (49 + 100 + 289)/27 = 16.2222.
    assert rewards.tolist() == pytest.approx([(r - 17 / 3) / math.sqrt(438 / 27) for r in (8, 9, 0)])
    assert (metrics["rollout/reward_running_mean"], running.count) == (pytest.approx(17 / 3), 3)
    assert metrics["rollout/reward_running_std"] == pytest.approx(math.sqrt(438 / 27))
    assert metrics["rollout/shaped_reward_mean"] == pytest.approx(0.0)


def test_environment_tokens_are_no_length():
    """Actions at both ends of 5 tokens: 2 of them, not 5."""
    batch = samples.experience([[0, 1, 0, 0, 1]], [1.0])
    assert shaped(batch, overlong_buffer_len=2)[0].tolist() == [1.0]


def test_a_sample_is_shaped_once_whatever_its_segments():
    # Sample 0: segments of 2 and 1 actions, 3 together -> penalty -1/2; sample 1: 1 action.
    long = samples.rollout("g", 0, 1.0, samples.segment([1, 2, 3], [0, 1, 1]), samples.segment([1, 2], [0, 1]))
    short = samples.rollout("g", 1, 0.0, samples.segment([1, 2], [0, 1]))
    batch = collate([samples.RolloutGroup("g", (long, short))])
    running = RunningNormaliser()
    rewards, metrics = shaped(batch, normaliser=running, overlong_buffer_len=2)
    # 0.5 and 0: mean 0.25, deviation 0.25; counting rows would give a mean of 1/3.
    assert rewards.tolist() == [1, 1, -1]
    assert running.count == 2
    assert metrics["rollout/overlong_penalty"] == -0.25


@pytest.mark.parametrize(("coef", "penalised"), [(0.5, 0.5), (-0.5, -0.5), (None, 1.0)])
def test_case_c2(coef, penalised):
    """Turns that end stop, length (A) and length (C) are truncated, length, stop (B) is not; reward 1 each."""
    turns = samples.segment([1, 2, 3, 4], [0, 1, 0, 1])
    cases = [samples.rollout("g", i, 1.0, turns, truncated=i != 1) for i in range(3)]
    group = samples.RolloutGroup("g", tuple(cases))
    rewards, metrics = shaped(collate([group]), stop_properly_penalty_coef=coef)
    assert rewards.tolist() == [penalised, 1.0, penalised]
    assert metrics.get("rollout/stop_penalty_rate") == (None if coef is None else pytest.approx(2 / 3))
    assert rollout_metrics([group])["rollout/truncated_rate"] == pytest.approx(2 / 3)


def test_a_broken_reward_does_not_enter_the_statistics():
    batch = samples.experience([[0, 1]] * 2, [math.nan, 1.0])
    with pytest.raises(FloatingPointError):
        shaped(batch, normaliser=RunningNormaliser())

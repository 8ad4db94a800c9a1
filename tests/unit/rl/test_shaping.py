"""Raw rewards on their way to the advantages."""

import math
from dataclasses import replace

import numpy as np
import pytest

from openrlhf.config.algo import AdvantageConfig, KlConfig
from openrlhf.config.reward import RewardConfig
from openrlhf.rl.advantages.compute import compute_advantages
from openrlhf.rl.metrics import rollout_metrics
from openrlhf.rl.packing import collate
from openrlhf.rl.running_normaliser import RunningNormaliser
from openrlhf.rl.shaping import clip_rewards, shape_rewards
from openrlhf.types import Turn
from tests.unit.rl import samples


def test_clip():
    assert clip_rewards(np.array([-30.0, 0.5, 12.0]), (-10, 10)).tolist() == [-10, 0.5, 10]
    assert np.isnan(clip_rewards(np.array([math.nan]), (-10, 10))).all()


def shaped(batch, limit=4, normaliser=None, **settings):
    found = shape_rewards(batch, RewardConfig(**settings), limit, normaliser)
    return found.rewards, found.metrics


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


def rewarded_turns(*turns):
    """Samples of two one-token actions, at 1 and 3, with these rewards."""
    ends = (Turn(1, 2), Turn(3, 4))
    made = []
    for number, gains in enumerate(turns):
        told = tuple(replace(turn, reward=gain) for turn, gain in zip(ends, gains, strict=True))
        part = samples.segment([1, 2, 3, 4], [0, 1, 0, 1], turns=told)
        made.append(samples.rollout("g", number, sum(gains), part))
    return collate([samples.RolloutGroup("g", tuple(made))])


def first_and_last_return(batch, normaliser=None, **settings):
    """Undiscounted returns at the first and the last action of each row, shaped as a training step does."""
    found = shape_rewards(batch, RewardConfig(**settings), 4, normaliser)
    batch.rewards, batch.turn_rewards = found.rewards, found.turn_rewards
    returns = compute_advantages(batch, AdvantageConfig(estimator="reinforce"), KlConfig(init_coef=0.0), 0.0).returns
    acting = [row[mask] for row, mask in zip(returns, batch.action_mask, strict=True)]
    return [(pytest.approx(row[0], abs=1e-5), pytest.approx(row[-1], abs=1e-5)) for row in acting]


def test_turns_keep_their_share_of_a_clipped_reward():
    # 8 + 8 = 16 -> 10: times 10/16, so 5 and 5. 100 + 100 = 200 -> 10: 5 and 5. 0 + -20 -> -10: 0 and -10.
    # 3 + 4 = 7 is inside: as it is, though a turn alone may be outside: 12 - 5 = 7.
    batch = rewarded_turns((8.0, 8.0), (100.0, 100.0), (0.0, -20.0), (3.0, 4.0), (12.0, -5.0))
    raw = batch.turn_rewards.copy()
    found = shape_rewards(batch, RewardConfig(), 4, None)
    assert found.turn_rewards[:, [1, 3]].tolist() == [[5, 5], [5, 5], [0, -10], [3, 4], [12, -5]]
    assert found.turn_rewards.dtype == np.float32
    assert batch.turn_rewards.tolist() == raw.tolist()
    assert first_and_last_return(batch) == [(10, 5), (10, 5), (-10, -10), (7, 4), (7, -5)]


def test_a_clip_range_without_zero_leaves_turns_alone():
    # Range (1, 5): 0 and -2 become 1, which is no share of them; 0.5 would grow to 1. The last action gets what is left
    # of 1: 1 - 2, 1 + 1, 1 - 0.25. 10 becomes 5, half of it: turns 4 and 1.
    batch = rewarded_turns((2.0, -2.0), (-1.0, -1.0), (0.25, 0.25), (8.0, 2.0))
    assert first_and_last_return(batch, clip_range=(1.0, 5.0)) == [(1, -1), (1, 2), (1, 0.75), (5, 1)]


def test_turns_are_normalised_with_their_sample():
    # Rewards 200 and 0: mean 100, deviation 100, so 1 and -1. Turns 1 and 1, and 0 and 0; the mean, -1, falls on the
    # last action of each: 1 - 1 = 0, and 0 - 1 = -1.
    batch = rewarded_turns((100.0, 100.0), (0.0, 0.0))
    found = first_and_last_return(batch, RunningNormaliser(), clip_range=(-1000.0, 1000.0))
    assert found == [(1, 0), (-1, -1)]
    # With the clip before it: 10 and 0, mean 5, deviation 5; turns 5 and 5 -> 1 and 1. The same.
    assert first_and_last_return(rewarded_turns((100.0, 100.0), (0.0, 0.0)), RunningNormaliser()) == found


def test_equal_rewards_blow_no_turn_up():
    # Both 1: mean 1, deviation 0, so 0 each. Divided by the floor of 1e-6 the turns would be a million; they stay.
    batch = rewarded_turns((1.0, 0.0), (0.0, 1.0))
    assert first_and_last_return(batch, RunningNormaliser()) == [(0, -1), (0, 0)]


def test_a_penalty_falls_on_the_last_action():
    # Length 2 of 4, buffer 4: excess 2, penalty -0.5 * 2/4 = -0.25. Reward 1 + 2 - 0.25, turns as they are.
    batch = rewarded_turns((1.0, 2.0))
    found = first_and_last_return(batch, overlong_buffer_len=4, overlong_penalty_factor=0.5)
    assert found == [(2.75, 1.75)]


def test_turns_in_two_segments_of_one_sample():
    # 8 in each segment, 16 -> 10: 5 and 5. The return is 10 in the first segment, and 5, still to earn, in the second.
    part = samples.segment([1, 2], [0, 1], turns=(Turn(1, 2, 8.0),))
    batch = collate([samples.RolloutGroup("g", (samples.rollout("g", 0, 16.0, part, part),))])
    assert first_and_last_return(batch) == [(10, 10), (5, 5)]


def test_without_rewarded_turns_there_are_none():
    assert shape_rewards(samples.experience([[0, 1]], [1.0]), RewardConfig(), 4, None).turn_rewards is None

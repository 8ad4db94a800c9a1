"""Which token a reward stands on."""

import math

import numpy as np
import pytest
import torch

from openrlhf.config.algo import AdvantageConfig, KlConfig
from openrlhf.rl.advantages.compute import compute_advantages
from openrlhf.rl.packing import collate
from openrlhf.rl.token_rewards import kl_penalty, terminal_rewards, turn_rewards, with_turn_rewards
from openrlhf.types import Turn
from tests.unit.rl import samples


def test_terminal_reward_stands_on_the_last_action_not_on_the_last_token():
    mask = torch.tensor([[0, 1, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]], dtype=torch.bool)
    placed = terminal_rewards(torch.tensor([2.0, 3.0, 4.0]), mask)
    assert placed.tolist() == [[0, 0, 2, 0], [0, 0, 0, 3], [0, 0, 0, 0]]


def test_kl_penalty_reads_action_tokens_only_and_clamps_one_wild_token():
    mask = torch.tensor([[0, 1, 1]], dtype=torch.bool)
    new, ref = torch.tensor([[math.nan, -1.0, 0.0]]), torch.tensor([[0.0, -1.5, -15.0]])
    # k1: 0.5 and 15 -> 10.
    assert kl_penalty(new, ref, mask, "k1").tolist() == [[0.0, 0.5, 10.0]]


def test_kl_penalty_shows_a_broken_action_token():
    mask = torch.tensor([[0, 1]], dtype=torch.bool)
    assert kl_penalty(torch.tensor([[0.0, math.inf]]), torch.zeros(1, 2), mask, "k1")[0, 1].isnan()


def test_turn_rewards():
    # Turn [1, 4) acts at 1 and 2, its last token is the environment's; turn [4, 6) has no reward of its own.
    mask = np.array([0, 1, 1, 0, 1, 1, 1], dtype=bool)
    turns = [Turn(1, 4, 0.5), Turn(4, 6), Turn(6, 7, -1.0)]
    assert turn_rewards(turns, mask).tolist() == [0, 0, 0.5, 0, 0, 0, -1.0]


def test_a_rewarded_turn_without_an_action_is_an_error():
    with pytest.raises(ValueError, match=r"turn \[0, 1\) has reward 1"):
        turn_rewards([Turn(0, 1, 1.0)], np.array([False, True]))


def test_what_is_left_stands_on_the_last_action():
    # Sample 0 in two rows: reward 1, turns 0.25 in the first and 0.5 in the second. After the first 0.75 is left to
    # earn, after the second 0.25. Sample 1 has no turn rewards.
    mask = torch.tensor([[0, 1, 1], [0, 1, 1], [0, 0, 1]], dtype=torch.bool)
    turns = torch.tensor([[0, 0.25, 0], [0, 0.5, 0], [0, 0, 0]])
    placed = with_turn_rewards(torch.tensor([1.0, 1.0, 3.0]), turns, torch.tensor([0, 0, 1]), mask)
    assert placed.tolist() == [[0, 0.25, 0.75], [0, 0.5, 0.25], [0, 0, 3]]


def two_turns(reward=1.0, first=0.25):
    """Actions at 1 and 3, the first turn rewarded."""
    part = samples.segment([1, 2, 3, 4], [0, 1, 0, 1], turns=(Turn(1, 2, first), Turn(3, 4)))
    return collate([samples.RolloutGroup("g", tuple(samples.rollout("g", i, reward, part) for i in range(2)))])


def compute(batch, name, **settings):
    config = AdvantageConfig(estimator=name, no_std_norm=True, **settings)
    return compute_advantages(batch, config, KlConfig(init_coef=0.0), 0.0)


def test_collate_places_them():
    assert two_turns().turn_rewards.tolist() == [[0, 0.25, 0, 0]] * 2
    plain = collate([samples.group("g", [1.0, 0.0])])
    assert plain.turn_rewards is None


def test_reinforce_and_gae_see_when_a_reward_came():
    # Undiscounted returns: the whole reward at the first action, what is left (0.75) at the last.
    batch = two_turns()
    np.testing.assert_allclose(compute(batch, "reinforce").returns, [[0, 1, 0, 0.75]] * 2)
    batch.values = np.full((2, 4), 0.5, dtype=np.float32)
    # lambda 0: A = r + V_next - V: 0.25 + 0.5 - 0.5, 0.75 - 0.5.
    np.testing.assert_allclose(compute(batch, "gae", lambd=0.0).returns, [[0, 0.75, 0, 0.75]] * 2)


def test_a_shaped_reward_keeps_the_sum():
    """A penalty of 1 came off the reward after the turns were rewarded: the last action pays for it."""
    batch = two_turns()
    batch.rewards -= 1.0
    np.testing.assert_allclose(compute(batch, "reinforce").returns, [[0, 0, 0, -0.25]] * 2)


@pytest.mark.parametrize("name", ["rloo", "dr_grpo", "group_norm", "reinforce_baseline"])
def test_grouped_estimators_compare_whole_samples(name):
    batch = two_turns()
    batch.rewards[1] = 0.0
    found = compute(batch, name).returns
    assert found[0, 1] == found[0, 3] == -found[1, 1] > 0

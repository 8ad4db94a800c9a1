"""Rewards on their way to the tokens."""

import math

import numpy as np
import pytest
import torch

from openrlhf.rl.shaping import clip_rewards
from openrlhf.rl.token_rewards import kl_penalty, terminal_rewards, turn_rewards
from openrlhf.types import Turn


def test_clip():
    assert clip_rewards(np.array([-30.0, 0.5, 12.0]), (-10, 10)).tolist() == [-10, 0.5, 10]
    assert np.isnan(clip_rewards(np.array([math.nan]), (-10, 10))).all()


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

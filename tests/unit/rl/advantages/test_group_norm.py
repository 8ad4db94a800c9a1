"""The reward in deviations of its group."""

import pytest
import torch

from openrlhf.rl.advantages.group_norm import group_norm

REWARDS, GROUPS = torch.tensor([1.0, 4.0, 0.0, 2.0, 2.0]), torch.tensor([7, 3, 7, 3, 7])


def test_by_hand():
    # Group 7: mean 1, Bessel variance (0 + 1 + 1)/2 = 1. Group 3: mean 3, Bessel variance (1 + 1)/1 = 2.
    assert group_norm(REWARDS, GROUPS).tolist() == pytest.approx([0, 0.5**0.5, -1, -(0.5**0.5), 1])


def test_a_constant_group_and_a_sample_alone_are_zero():
    rewards = torch.tensor([0.1, 0.1, 0.1, 5.0])
    assert group_norm(rewards, torch.tensor([0, 0, 0, 1])).tolist() == [0, 0, 0, 0]

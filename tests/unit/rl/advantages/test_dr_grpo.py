"""The reward minus the mean of its group."""

import pytest
import torch

from openrlhf.rl.advantages.dr_grpo import dr_grpo

REWARDS, GROUPS = torch.tensor([1.0, 4.0, 0.0, 2.0, 2.0]), torch.tensor([7, 3, 7, 3, 7])


def test_by_hand():
    # Group 7: 1, 0, 2, mean 1. Group 3: 4, 2, mean 3.
    assert dr_grpo(REWARDS, GROUPS).tolist() == pytest.approx([0, 1, -1, -1, 1])

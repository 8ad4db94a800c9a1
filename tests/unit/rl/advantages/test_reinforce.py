"""REINFORCE: the reward itself."""

import torch

from openrlhf.rl.advantages.reinforce import reinforce

REWARDS, GROUPS = torch.tensor([1.0, 4.0, 0.0, 2.0, 2.0]), torch.tensor([7, 3, 7, 3, 7])


def test_by_hand():
    found = reinforce(REWARDS, GROUPS)
    assert found.tolist() == [1, 4, 0, 2, 2]
    assert found.dtype == torch.float64

"""The reward minus the mean of the others."""

import pytest
import torch

from openrlhf.rl.advantages.rloo import rloo

REWARDS, GROUPS = torch.tensor([1.0, 4.0, 0.0, 2.0, 2.0]), torch.tensor([7, 3, 7, 3, 7])


def test_by_hand():
    # Means of the others: 1 -> (0 + 2)/2 = 1; 4 -> 2; 0 -> 1.5; 2 -> 4; 2 -> 0.5.
    assert rloo(REWARDS, GROUPS).tolist() == pytest.approx([0, 2, -1.5, -2, 1.5])


def test_alone_in_its_group():
    assert rloo(torch.tensor([3.0]), torch.tensor([0])).tolist() == [0]

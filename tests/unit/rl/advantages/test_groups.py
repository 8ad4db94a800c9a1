"""Group statistics."""

import pytest
import torch

from openrlhf.rl.advantages.groups import centred, group_index


def test_group_index():
    index, sizes = group_index(torch.tensor([7, 3, 7, 7]))
    assert index.tolist() == [1, 0, 1, 1]
    assert sizes.tolist() == [1, 3]


def test_centred_by_hand():
    found = centred(torch.tensor([1.0, 0.0, 0.1, 0.1, 0.1]), torch.tensor([7, 7, 3, 3, 3]))
    assert found.tolist() == [0.5, -0.5, 0, 0, 0]


@pytest.mark.parametrize(("spread", "constant"), [(9e-7, True), (1.1e-6, False)])
def test_rounding_is_no_signal(spread, constant):
    found = centred(torch.tensor([0.5, 0.5 + spread], dtype=torch.float64), torch.tensor([0, 0]))
    assert (found.tolist() == [0, 0]) is constant

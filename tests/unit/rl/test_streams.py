"""Sums and means over the sequences of a pack."""

import math

import pytest
import torch

from openrlhf.rl.streams import bounded, sequence_index, sequence_mean, sequence_sum


def test_sequence_index():
    assert sequence_index(torch.tensor([0, 2, 2, 5]), 5).tolist() == [0, 0, 2, 2, 2]


def test_sums_and_means_by_hand():
    values, sequence = torch.tensor([1.0, 3.0, 5.0]), torch.tensor([0, 0, 2])
    assert sequence_sum(values, sequence, 4).tolist() == [4, 0, 5, 0]
    assert sequence_mean(values, sequence, 4).tolist() == [2, 0, 5, 0]


def test_mean_passes_its_gradient_on():
    values = torch.tensor([1.0, 3.0, 5.0], requires_grad=True)
    sequence_mean(values, torch.tensor([0, 0, 1]), 2)[0].backward()
    assert values.grad.tolist() == [0.5, 0.5, 0.0]


@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
def test_bounded_hides_nothing(broken):
    values = torch.tensor([broken, 30.0, -30.0, 2.0], requires_grad=True)
    found = bounded(values, 20.0)
    assert found[0].isnan()
    assert found[1:].tolist() == [20, -20, 2]
    found[1:].sum().backward()
    assert values.grad.tolist() == [0, 0, 0, 1]

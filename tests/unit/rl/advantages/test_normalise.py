"""Normalisation over the loss tokens of a batch."""

import math

import numpy as np
import pytest
import torch

from openrlhf.rl.advantages.normalise import batch_normalise
from tests.unit.rl import reference

MASK = torch.tensor([[True, True], [True, False]])


def test_by_hand():
    # Values 1, 1, 4: mean 2, biased variance (1 + 1 + 4)/3 = 2, std 1.41421.
    values = torch.tensor([[1.0, 1.0], [4.0, 100.0]])
    found = batch_normalise(values, MASK)
    assert found.flatten().tolist() == pytest.approx([-0.70710678, -0.70710678, 1.41421356, 0.0])
    assert batch_normalise(values, MASK, no_std_norm=True).tolist() == [[-1.0, -1.0], [2.0, 0.0]]


def test_equal_values_give_exactly_zero():
    values = torch.full((2, 2), 0.1)
    assert batch_normalise(values, MASK).abs().max() < 1e-11
    assert batch_normalise(torch.zeros(2, 2), MASK).tolist() == [[0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_masked_values_are_never_read_and_unmasked_ones_show(broken):
    values = torch.tensor([[1.0, 1.0], [4.0, broken]])
    clean = torch.tensor([[1.0, 1.0], [4.0, 0.0]])
    assert torch.equal(batch_normalise(values, MASK), batch_normalise(clean, MASK))
    assert batch_normalise(values, torch.ones(2, 2, dtype=torch.bool))[1, 1].isnan()


def test_statistics_of_other_tokens():
    # Mean and variance of 1 and 1, so std is 1e-4 at least: 4 is (4 - 1)/1e-4.
    values, statistics = torch.tensor([[1.0, 1.0], [4.0, 100.0]]), torch.tensor([[True, True], [False, False]])
    assert batch_normalise(values, MASK, statistics=statistics).flatten().tolist() == pytest.approx([0, 0, 3e4, 0])
    nothing = torch.zeros(2, 2, dtype=torch.bool)
    assert batch_normalise(values, MASK, statistics=nothing).tolist() == [[0.0, 0.0], [0.0, 0.0]]


def test_no_loss_tokens():
    assert batch_normalise(torch.ones(1, 2), torch.zeros(1, 2, dtype=torch.bool)).tolist() == [[0.0, 0.0]]


@pytest.mark.parametrize("no_std_norm", [False, True])
@pytest.mark.parametrize("seed", range(10))
def test_matches_the_reference(no_std_norm, seed):
    rng = np.random.default_rng(seed)
    values, mask = 5 + rng.normal(size=(4, 7)), rng.random((4, 7)) < 0.7
    found = batch_normalise(torch.from_numpy(values), torch.from_numpy(mask), no_std_norm)
    expected = reference.normalise(values.tolist(), mask.tolist(), no_std_norm)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-10, atol=1e-12)

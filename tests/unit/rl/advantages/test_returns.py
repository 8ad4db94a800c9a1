"""Returns over action tokens."""

import math

import numpy as np
import pytest
import torch

from openrlhf.rl.advantages.returns import discounted_returns
from tests.unit.rl import reference


def test_environment_tokens_are_no_steps():
    # Actions at 1, 3, 4 with rewards 1, 0, 2, gamma 0.5: G_4 = 2, G_3 = 0 + 1 = 1, G_1 = 1 + 0.5 * 1 = 1.5.
    # Counting the environment token at 2 as a step would give G_1 = 1.25.
    rewards = torch.tensor([[9.0, 1.0, math.nan, 0.0, 2.0, math.inf]])
    mask = torch.tensor([[0, 1, 0, 1, 1, 0]], dtype=torch.bool)
    assert discounted_returns(rewards, mask, 0.5).tolist() == [[0, 1.5, 0, 1, 2, 0]]
    assert discounted_returns(rewards, mask, 1.0).tolist() == [[0, 3, 0, 2, 2, 0]]


@pytest.mark.parametrize("gamma", [1.0, 0.9, 0.0])
@pytest.mark.parametrize("seed", range(10))
def test_matches_the_reference(gamma, seed):
    rng = np.random.default_rng(seed)
    rewards, mask = rng.normal(size=(5, 12)), rng.random((5, 12)) < 0.6
    mask[0] = False
    found = discounted_returns(torch.from_numpy(rewards), torch.from_numpy(mask), gamma)
    expected = [reference.returns(r, m, gamma) for r, m in zip(rewards.tolist(), mask.tolist(), strict=True)]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-12)


def test_a_broken_reward_of_an_action_shows():
    rewards = torch.tensor([[1.0, math.nan]])
    assert discounted_returns(rewards, torch.tensor([[True, True]]), 0.5).isnan().all()

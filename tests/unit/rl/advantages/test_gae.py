"""GAE over action tokens."""

import math

import numpy as np
import pytest
import torch

from openrlhf.config.algo import AdvantageConfig, KlConfig
from openrlhf.rl.advantages.compute import compute_advantages
from openrlhf.rl.advantages.gae import gae
from tests.unit.rl import reference, samples


def test_by_hand():
    # gamma 0.5, lambda 0.5, actions at 1 and 2, rewards 1 and 2, values 4 and 6.
    # t=2: delta = 2 - 6 = -4, A = -4. t=1: delta = 1 + 0.5*6 - 4 = 0, A = 0 + 0.25*(-4) = -1. R = A + V = 3 and 2.
    rewards, values = torch.tensor([[0.0, 1.0, 2.0]]), torch.tensor([[0.0, 4.0, 6.0]])
    advantages, returns = gae(rewards, values, torch.tensor([[False, True, True]]), 0.5, 0.5)
    assert advantages.tolist() == [[0, -1, -4]]
    assert returns.tolist() == [[0, 3, 2]]
    assert (advantages.dtype, returns.dtype) == (torch.float64, torch.float64)


def test_environment_tokens_are_no_steps():
    """The same actions with the environment's tokens between and after them, whatever stands on those."""
    broken = math.nan
    rewards = torch.tensor([[broken, 1.0, 9.0, broken, 2.0, math.inf]])
    values = torch.tensor([[9.0, 4.0, broken, 9.0, 6.0, 9.0]])
    mask = torch.tensor([[0, 1, 0, 0, 1, 0]], dtype=torch.bool)
    advantages, returns = gae(rewards, values, mask, 0.5, 0.5)
    assert advantages.tolist() == [[0, -1, 0, 0, -4, 0]]
    assert returns.tolist() == [[0, 3, 0, 0, 2, 0]]


def test_the_example_of_the_docstring():
    mask = torch.tensor([[0, 1, 0, 1]], dtype=torch.bool)
    advantages, returns = gae(torch.tensor([[9, 0, 9, 1.0]]), torch.tensor([[9, 0.5, 9, 0.25]]), mask, 1.0, 0.5)
    assert advantages.tolist() == [[0, 0.125, 0, 0.75]]
    assert returns.tolist() == [[0, 0.625, 0, 1]]


def test_rows_do_not_touch_and_a_row_without_actions_is_zero():
    mask = torch.tensor([[0, 1, 1], [0, 0, 0]], dtype=torch.bool)
    advantages, _ = gae(torch.ones(2, 3), torch.full((2, 3), 5.0), mask, 1.0, 1.0)
    assert advantages.tolist() == [[0, -3, -4], [0, 0, 0]]


@pytest.mark.parametrize(("gamma", "lambd"), [(1.0, 1.0), (0.9, 0.8), (0.95, 0.0), (0.0, 1.0)])
def test_matches_the_reference(gamma, lambd):
    rng = np.random.default_rng(0)
    rewards, values, mask = rng.normal(size=(5, 12)), rng.normal(size=(5, 12)), rng.random((5, 12)) < 0.6
    advantages, returns = gae(*map(torch.from_numpy, (rewards, values, mask)), gamma, lambd)
    for row in range(5):
        expected = reference.gae(rewards[row].tolist(), values[row].tolist(), mask[row].tolist(), gamma, lambd)
        np.testing.assert_allclose(advantages[row].numpy(), expected, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(returns[row].numpy(), np.where(mask[row], expected + values[row], 0), atol=1e-12)


@pytest.mark.parametrize("which", ["rewards", "values"])
def test_a_broken_action_shows(which):
    streams = {"rewards": torch.zeros(1, 2), "values": torch.zeros(1, 2)}
    streams[which][0, 1] = math.nan
    advantages, _ = gae(streams["rewards"], streams["values"], torch.tensor([[True, True]]), 1.0, 0.5)
    assert advantages.isnan().all()


def settings(**others):
    return AdvantageConfig(estimator="gae", **others)


def test_through_compute_advantages():
    # Reward 1 at the last action, values 0.5, 0.25, lambda 0.5, gamma 1 as above: advantages 0.125, 0.75 and returns
    # 0.625, 1. Normalised with mean 0.4375, deviation 0.3125 -> -1, 1.
    batch = samples.experience([[0, 1, 0, 1]], [1.0])
    batch.values = np.array([[7, 0.5, math.nan, 0.25]], dtype=np.float32)
    found = compute_advantages(batch, settings(lambd=0.5), KlConfig(init_coef=0.0), 0.0)
    np.testing.assert_allclose(found.advantages, [[0, -1, 0, 1]], atol=1e-6)
    np.testing.assert_allclose(found.returns, [[0, 0.625, 0, 1]])
    # R - V = 0.125, 0.75: variance 0.09765625; R: 0.03515625 -> 1 - 2.777778.
    assert found.metrics["rollout/value_mean"] == 0.375
    assert found.metrics["rollout/explained_variance"] == pytest.approx(-16 / 9)


def test_explained_variance_of_constant_returns_is_left_out():
    batch = samples.experience([[0, 1, 1]], [1.0])
    batch.values = np.zeros((1, 3), dtype=np.float32)
    found = compute_advantages(batch, settings(), KlConfig(init_coef=0.0), 0.0)
    assert "rollout/explained_variance" not in found.metrics
    assert found.metrics["rollout/value_mean"] == 0.0


def test_values_are_needed():
    with pytest.raises(ValueError, match="gae needs the critic's values"):
        compute_advantages(samples.experience([[0, 1]], [1.0]), settings(), KlConfig(init_coef=0.0), 0.0)

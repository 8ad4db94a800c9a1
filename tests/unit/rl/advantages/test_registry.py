"""Group statistics of every estimator."""

import itertools

import numpy as np
import pytest
import torch

from openrlhf.rl.advantages.registry import ESTIMATORS, estimator
from tests.unit.rl import reference

GROUPED = [name for name, found in ESTIMATORS.items() if found.grouped]


def scores(name, rewards, group_ids):
    return estimator(name).score(torch.tensor(rewards), torch.tensor(group_ids)).tolist()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # Group 7: rewards 1, 0, 2 -> mean 1, Bessel variance (0 + 1 + 1)/2 = 1. Group 3: rewards 4, 2 -> mean 3,
        # Bessel variance (1 + 1)/1 = 2, std 1.4142.
        ("gae", [1, 4, 0, 2, 2]),
        ("reinforce", [1, 4, 0, 2, 2]),
        ("reinforce_baseline", [0, 1, -1, -1, 1]),
        ("dr_grpo", [0, 1, -1, -1, 1]),
        # Others' means: 1 -> (0+2)/2 = 1; 0 -> 1.5; 2 -> 0.5; 4 -> 2; 2 -> 4.
        ("rloo", [0, 2, -1.5, -2, 1.5]),
        ("group_norm", [0, 0.70710678, -1, -0.70710678, 1]),
    ],
)
def test_by_hand(name, expected):
    found = scores(name, [1.0, 4.0, 0.0, 2.0, 2.0], [7, 3, 7, 3, 7])
    assert found == pytest.approx(expected, abs=1e-8)


@pytest.mark.parametrize("name", GROUPED)
def test_constant_groups_are_exactly_zero(name):
    """SPEC 1.3: float32 sums of 8 rewards of 0.1 leave 1e-8, and group_norm's epsilon makes that 7 to 60."""
    for reward, size in itertools.product([0.1, 0.3, 0.7, 0.9, -3.3], [1, 2, 3, 7, 8, 64]):
        rewards = [float(np.float32(reward))] * size + [0.0, 1.0]
        found = scores(name, rewards, [0] * size + [1, 1])
        assert found[:size] == [0.0] * size
        assert found[size] == -found[size + 1] != 0.0


@pytest.mark.parametrize("name", GROUPED)
def test_rounding_noise_in_a_group_is_constant(name):
    assert scores(name, [0.5, 0.5 + 9e-7, 0.5], [0, 0, 0]) == [0.0, 0.0, 0.0]
    assert scores(name, [0.5, 0.5 + 1e-5, 0.5], [0, 0, 0])[1] > 0


@pytest.mark.parametrize("name", ESTIMATORS)
def test_matches_the_reference_on_ragged_groups(name):
    for seed in range(20):
        check_against_reference(name, np.random.default_rng(seed))


def check_against_reference(name, rng):
    group_ids = rng.permutation(np.repeat(rng.permutation(100)[:6], rng.integers(2, 6, size=6)))
    rewards = rng.choice([0.0, 0.1, 0.5, 1.0], len(group_ids)).astype(np.float32)
    found = estimator(name).score(torch.from_numpy(rewards), torch.from_numpy(group_ids))
    assert found.dtype == torch.float64
    expected = reference.estimate(name, rewards.astype(float).tolist(), group_ids.tolist())
    assert found.tolist() == pytest.approx(expected, rel=1e-12, abs=1e-12)


@pytest.mark.parametrize("name", GROUPED)
def test_a_broken_reward_stays_in_its_group_and_shows(name):
    found = scores(name, [float("nan"), 1.0, 1.0, 0.0], [0, 0, 1, 1])
    assert np.isnan(found[:2]).all()
    assert np.isfinite(found[2:]).all()


def test_flags_of_each_estimator():
    assert {n: (e.grouped, e.batch_norm, e.critic) for n, e in ESTIMATORS.items()} == {
        "gae": (False, True, True),
        "reinforce": (False, True, False),
        "reinforce_baseline": (True, True, False),
        "rloo": (True, False, False),
        "group_norm": (True, False, False),
        "dr_grpo": (True, False, False),
    }


def test_unknown_name_lists_what_exists():
    with pytest.raises(ValueError, match="'ppo', one of gae, reinforce, reinforce_baseline, rloo, group_norm, dr_grpo"):
        estimator("ppo")

"""Running statistics of rewards."""

import math

import numpy as np
import pytest

from openrlhf.rl.running_normaliser import RunningNormaliser


def test_by_hand():
    # 1, 3: mean 2, variance 1. Then 5, 7: all four have mean 4, variance (9 + 1 + 1 + 9)/4 = 5.
    running = RunningNormaliser()
    running.update(np.array([1.0, 3.0]))
    assert (running.count, running.mean, running.std) == (2, 2.0, 1.0)
    assert running.normalise(np.array([1.0, 3.0])).tolist() == [-1, 1]
    running.update(np.array([5.0, 7.0]))
    assert (running.count, running.mean) == (4, 4.0)
    assert running.std == pytest.approx(math.sqrt(5))
    assert running.normalise(np.array([4.0, 9.0])).tolist() == pytest.approx([0, math.sqrt(5)])


def test_constant_rewards_become_zero():
    running = RunningNormaliser()
    for _ in range(3):
        running.update(np.full(7, 0.1, dtype=np.float32))
    assert np.abs(running.normalise(np.full(7, 0.1, dtype=np.float32))).max() < 1e-6


def test_far_from_zero_in_many_batches():
    """Sums of squares would lose everything here: a mean of 1e8 and a spread of 1."""
    rng = np.random.default_rng(0)
    numbers = 1e8 + rng.normal(size=1000)
    running = RunningNormaliser()
    for batch in np.split(numbers, 20):
        running.update(batch)
    assert running.mean == pytest.approx(numbers.mean(), rel=1e-15)
    assert running.std == pytest.approx(numbers.std(), rel=1e-6)


def test_state_survives():
    running, again = RunningNormaliser(), RunningNormaliser()
    running.update(np.array([1.0, 4.0, 4.0]))
    again.load_state_dict(running.state_dict())
    for each in (running, again):
        each.update(np.array([-2.0, 8.0]))
    assert again.state_dict() == running.state_dict()


def test_nothing_and_nonsense():
    running = RunningNormaliser()
    running.update(np.array([]))
    assert (running.count, running.std) == (0, 0.0)
    for broken in (math.nan, math.inf):
        with pytest.raises(FloatingPointError, match="running normalisation: rewards"):
            running.update(np.array([1.0, broken]))
    assert running.count == 0

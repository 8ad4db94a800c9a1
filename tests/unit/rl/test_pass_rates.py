"""Estimates of pass@k and their intervals."""

import itertools
import math

import numpy as np
import pytest

from openrlhf.rl.pass_rates import interval, pass_at_k, wilson


@pytest.mark.parametrize("passed", range(6))
@pytest.mark.parametrize("k", range(1, 6))
def test_pass_at_k_is_the_share_of_all_draws_of_k_with_a_pass(passed, k):
    samples = [True] * passed + [False] * (5 - passed)
    draws = [any(draw) for draw in itertools.combinations(samples, k)]
    assert pass_at_k(5, passed, k) == pytest.approx(sum(draws) / len(draws), abs=1e-12)


def test_pass_at_1_is_the_rate_and_many_samples_are_no_problem():
    assert pass_at_k(8, 2, 1) == pytest.approx(0.25)
    assert pass_at_k(1024, 1, 512) == pytest.approx(0.5)


@pytest.mark.parametrize(("n", "passed", "k"), [(4, 1, 5), (4, 1, 0), (4, 5, 1), (0, 0, 1)])
def test_what_cannot_be_estimated(n, passed, k):
    with pytest.raises(ValueError, match=f"pass@{k}"):
        pass_at_k(n, passed, k)


def test_the_interval_has_the_width_of_the_standard_error():
    # 400 prompts, half of them 1: standard error sqrt(0.25 / 400) = 0.025, and 1.96 of it on either side.
    low, high = interval([0.0, 1.0] * 200, 0.95, seed=1)
    assert low == pytest.approx(0.5 - 0.049, abs=0.008)
    assert high == pytest.approx(0.5 + 0.049, abs=0.008)
    wide = interval([0.0, 1.0] * 200, 0.99, seed=1)
    assert wide[0] < low
    assert wide[1] > high
    assert interval([0.0, 1.0] * 200, 0.95, seed=1) == (low, high)


def test_the_interval_covers_the_truth_as_often_as_it_says():
    rng = np.random.default_rng(0)
    covered = [
        low <= 0.3 <= high for low, high in (interval(rng.binomial(4, 0.3, 50) / 4, 0.9, seed) for seed in range(60))
    ]
    # 54 of 60 expected, deviation sqrt(60 * 0.9 * 0.1) = 2.3.
    assert 45 <= sum(covered) <= 60


def test_prompts_that_agree_still_leave_doubt():
    # Wilson, z = 1.96: no pass of 20 leaves up to z^2 / (20 + z^2) = 3.841 / 23.841 = 0.161.
    assert interval([0.0] * 20, 0.95, seed=0) == pytest.approx((0.0, 0.161), abs=1e-3)
    assert interval([1.0] * 20, 0.95, seed=0) == pytest.approx((0.839, 1.0), abs=1e-3)
    assert interval([-3.0] * 20, 0.95, seed=0) == (-3.0, -3.0)  # a score that is no rate
    assert all(math.isnan(bound) for bound in interval([], 0.95, seed=0))


def test_wilson_by_hand():
    # 5 of 10, z^2 = 3.8415: centre 0.5, half sqrt(3.8415 * (0.025 + 3.8415 / 400)) / 1.38415 = 0.2634.
    assert wilson(0.5, 10, 0.95) == pytest.approx((0.2366, 0.7634), abs=1e-4)

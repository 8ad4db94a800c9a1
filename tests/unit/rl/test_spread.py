"""Sharing out weighted items."""

import random

import pytest

from openrlhf.rl.balance import first_fit, spread


def test_heaviest_first_to_the_least_loaded():
    assert spread([9, 7, 5, 3, 1], 4) == [[0], [1], [2], [3, 4]]
    # 5 -> bin 0, 4 -> 1, 3 -> 1 (4 < 5), 3 -> 0 (5 < 7), 1 -> 1 (7 < 8): loads 8 and 8.
    assert spread([5, 4, 3, 3, 1], 2) == [[0, 3], [1, 2, 4]]


def test_room_is_limited():
    assert spread([9, 1, 1, 1], 2, max_items=2) == [[0, 3], [1, 2]]
    with pytest.raises(ValueError, match="5 items do not fit into 2 bins of 2"):
        spread([1] * 5, 2, max_items=2)


def test_first_fit_by_hand():
    # 6 | 5 | 4 joins 6, 3 joins 5, 2 joins 5 + 3.
    assert first_fit([6, 5, 4, 3, 2], capacity=10) == [[0, 2], [1, 3, 4]]
    assert first_fit([6, 5, 4, 3, 2], capacity=10, max_items=2) == [[0, 2], [1, 3], [4]]
    assert first_fit([12, 1], capacity=10) == [[0], [1]]


def test_spread_is_near_even():
    rng = random.Random(0)
    for _ in range(50):
        weights = [rng.randint(1, 100) for _ in range(rng.randint(8, 60))]
        loads = [sum(weights[i] for i in items) for items in spread(weights, 4)]
        assert max(loads) - min(loads) <= max(weights)

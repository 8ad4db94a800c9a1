"""Interleaving by probability."""

import random
from itertools import islice

import numpy as np
import pytest

from openrlhf.data.blend import expected_rows, interleave, parse_probabilities
from openrlhf.data.errors import DataError
from openrlhf.data.stable_random import permutation


def test_rows_come_in_order_and_wrap_until_every_set_was_used_up():
    order = list(interleave([3, 40], [0.5, 0.5], seed=1))
    small = [row for source, row in order if source == 0]
    large = [row for source, row in order if source == 1]
    assert large == list(range(40))  # ends with its last row: it is the one used up last
    assert order[-1] == (1, 39)
    assert small == [i % 3 for i in range(len(small))]
    assert len(small) > 3


def test_the_shares_follow_the_probabilities():
    drawn = [source for source, _ in islice(interleave([10**6, 10**6], [0.8, 0.2], seed=3), 20_000)]
    # Standard deviation of the share: sqrt(0.8 * 0.2 / 20000) = 0.0028; allow five of them.
    assert np.mean(drawn) == pytest.approx(0.2, abs=0.0142)


def test_the_order_depends_on_the_seed_alone():
    first = list(interleave([20, 30], [0.4, 0.6], seed=7))
    random.seed(0)
    np.random.seed(0)
    assert list(interleave([20, 30], [0.4, 0.6], seed=7)) == first
    assert list(interleave([20, 30], [0.4, 0.6], seed=8)) != first


def test_a_shuffle_with_the_same_seed_is_independent_of_the_choice_of_sets():
    # Shared random bits would put every row of set 0 before every row of set 1.
    sources = [source for source, _ in islice(interleave([10**4, 10**4], [0.5, 0.5], seed=5), 4000)]
    shuffled = [sources[i] for i in permutation(4000, 5, 0)]
    # Fair coin, 2000 draws: standard deviation of the mean 0.0112; allow five.
    assert np.mean(shuffled[:2000]) == pytest.approx(0.5, abs=0.056)


def test_probabilities_are_read():
    assert parse_probabilities(None, 3) is None
    assert parse_probabilities("0.7, 0.3", 2) == [0.7, 0.3]


@pytest.mark.parametrize("text", ["0.5", "0.5,0.6", "1.0,0.0", "1.5,-0.5", "a,b", "0.5,", "nan,1"])
def test_other_probabilities_are_refused(text):
    with pytest.raises(DataError, match="probabilities"):
        parse_probabilities(text, 2)


def test_the_rows_of_a_blend_are_known_before_it_is_made():
    # The set that takes longest: 1000 / 0.9 = 1111.1 and 10 / 0.1 = 100; then 1000 / 0.999 = 1001 and 10 / 0.001.
    assert expected_rows([1000, 10], [0.9, 0.1]) == 1112
    assert expected_rows([1000, 10], [0.999, 0.001]) == 10000

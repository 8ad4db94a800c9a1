"""Sharing out weighted items."""

import itertools
import random
import tracemalloc

import pytest

from openrlhf.rl.balance import first_fit, heaviest_first, karmarkar_karp


def sums(weights, bins):
    return [sum(weights[i] for i in items) for items in bins]


def test_karmarkar_karp_by_hand():
    # 8 7 6 5 4 into two: the partial solutions (8,0) and (7,0) differ most -> (8,7), difference 1; (6,0) and (5,0) ->
    # (6,5), 1; (4,0) and (8,7) -> 4 joins 7: (11,8), 3; with (6,5): 6 joins 8, 5 joins 11 -> (16,14).
    assert karmarkar_karp([8, 7, 6, 5, 4], 2) == [[1, 3, 4], [0, 2]]
    # Case d2: 3 and 1 share a bin.
    assert karmarkar_karp([9, 7, 5, 3, 1], 4) == [[0], [1], [2], [3, 4]]


def test_three_bins_by_hand():
    # 8 and 7 -> (8,7,0), 6 takes the empty bin -> (8,7,6), difference 2; 5 and 4 -> (5,4,0), difference 5. Merged light
    # on heavy: 5 + 6, 4 + 7, 0 + 8.
    weights = [4, 5, 6, 7, 8]
    assert karmarkar_karp(weights, 3) == [[0, 3], [1, 2], [4]]
    assert sums(weights, karmarkar_karp(weights, 3)) == [11, 11, 8]


def test_equal_counts_by_hand():
    # Packs 9 7 and 5 3 -> (9,7) and (5,3) both differ by 2: 9 + 3, 7 + 5. Then 1 alone: it joins either, both are 12.
    bins = karmarkar_karp([9, 7, 5, 3, 1], 2, equal_counts=True)
    assert sorted(map(len, bins)) == [2, 3]
    assert sorted(sums([9, 7, 5, 3, 1], bins)) == [12, 13]
    # Without: 9 3 | 7 5 1 has the same sums, but one heavy item may face many light ones.
    assert karmarkar_karp([9, 1, 1, 1], 2) == [[0], [1, 2, 3]]
    assert sorted(map(len, karmarkar_karp([9, 1, 1, 1], 2, equal_counts=True))) == [2, 2]


def test_few_items_and_no_bins():
    assert karmarkar_karp([], 2) == [[], []]
    assert karmarkar_karp([5, 7], 3) == [[1], [0], []]
    assert karmarkar_karp([0, 0, 0], 3) == [[0], [1], [2]]
    with pytest.raises(ValueError, match="1 items cannot go into 0 bins"):
        karmarkar_karp([1], 0)


def test_first_fit_by_hand():
    # 6 | 5 | 4 joins 6, 3 joins 5, 2 joins 5 + 3.
    assert first_fit([6, 5, 4, 3, 2], capacity=10) == [[0, 2], [1, 3, 4]]
    assert first_fit([6, 5, 4, 3, 2], capacity=10, max_items=2) == [[0, 2], [1, 3], [4]]
    assert first_fit([12, 1], capacity=10) == [[0], [1]]


def test_properties():
    rng = random.Random(0)
    for _ in range(100):
        weights = [rng.randint(1, 100) for _ in range(rng.randint(1, 40))]
        num_bins, equal = rng.randint(1, 8), rng.random() < 0.5
        bins = karmarkar_karp(weights, num_bins, equal)
        assert sorted(itertools.chain(*bins)) == list(range(len(weights)))
        loads = sums(weights, bins)
        assert len(bins) == num_bins
        assert loads == sorted(loads, reverse=True)
        # Merging never widens the larger of two differences, and a single item differs from nothing by itself.
        assert max(loads) - min(loads) <= max(weights)
        if len(weights) >= num_bins:
            assert all(bins)
        if equal:
            assert {len(items) for items in bins} <= {len(weights) // num_bins, -(-len(weights) // num_bins)}
        assert karmarkar_karp(weights, num_bins, equal) == bins


def plain_differencing(weights, num_bins):
    """Largest differencing with every bin of every partial solution written out."""
    partials = [[(weights[i], [i])] + [(0, [])] * (num_bins - 1) for i in heaviest_first(weights)]
    while len(partials) > 1:
        partials.sort(key=lambda bins: bins[-1][0] - bins[0][0])  # stable: ties in the order of making
        first, second, *partials = partials
        bins = [(a + b, mine + others) for (a, mine), (b, others) in zip(first, reversed(second), strict=True)]
        partials.append(sorted(bins, key=lambda entry: -entry[0]))
    return sorted(sorted(items) for _, items in partials[0])


def plain_first_fit(weights, capacity, max_items):
    bins = []
    for item in heaviest_first(weights):
        fitting = (b for b in bins if sum(weights[i] for i in [*b, item]) <= capacity and len(b) != max_items)
        found = next(fitting, None)
        if found is None:
            bins.append([item])
        else:
            found.append(item)
    return bins


def test_the_same_as_by_the_plain_way():
    rng = random.Random(2)
    for _ in range(200):
        weights = [rng.randint(1, rng.choice([3, 100])) for _ in range(rng.randint(1, 30))]
        num_bins, capacity, most = rng.randint(1, 20), rng.randint(1, 150), rng.choice([None, 1, 3])
        assert sorted(karmarkar_karp(weights, num_bins)) == plain_differencing(weights, num_bins)
        assert first_fit(weights, capacity, most) == plain_first_fit(weights, capacity, most)


def test_many_bins_cost_what_their_items_do():
    # Written out, 2,000 partial solutions of 1,000 bins would be 2 million entries of 8 bytes and more.
    weights = [4000 + 7 * i % 4001 for i in range(2000)]
    tracemalloc.start()
    try:
        bins = karmarkar_karp(weights, 1000)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert {len(items) for items in bins} == {2}
    assert peak < 4 << 20


def best(weights, num_bins):
    """The least possible heaviest bin, by trying everything."""
    heaviest = []
    for choice in itertools.product(range(num_bins), repeat=len(weights)):
        loads = [0] * num_bins
        for weight, chosen in zip(weights, choice, strict=True):
            loads[chosen] += weight
        heaviest.append(max(loads))
    return min(heaviest)


def test_heaviest_bin_is_near_the_best_possible():
    """Michiels et al. 2003: at most 4/3 - 1/(3 (m - 1)) of the optimum for m > 2 bins, 7/6 for two."""
    rng = random.Random(1)
    for _ in range(15):
        weights = [rng.randint(1, 20) for _ in range(7)]
        for num_bins, bound in ((2, 7 / 6), (3, 4 / 3 - 1 / 6)):
            assert max(sums(weights, karmarkar_karp(weights, num_bins))) <= bound * best(weights, num_bins) + 1e-9


def test_heaviest_first():
    assert heaviest_first([2, 5, 2, 9]) == [3, 1, 0, 2]

"""Sharing out weighted items evenly."""

import heapq
from collections.abc import Sequence
from itertools import count


def karmarkar_karp(weights: Sequence[int], num_bins: int, equal_counts: bool = False) -> list[list[int]]:
    """Return num_bins lists of indices into weights (0 or more), every index once, with bin sums as even as it can.

    Largest differencing (Karmarkar and Karp 1982, for any number of bins): start with one partial solution per item and
    merge the two whose bins differ most, heavy bins onto light ones, until one is left. `equal_counts`: bins hold
    ceil(n / num_bins) or one fewer items; the items then enter in packs of num_bins, one to a bin.
    With as many positive items as bins or more, no bin stays empty. Bins come heaviest first, indices rising;
    deterministic. O(n num_bins log(n num_bins)). Raises ValueError for fewer than one bin.
    Example: weights [9, 7, 5, 3, 1], 4 bins -> [[0], [1], [2], [3, 4]].
    """
    if num_bins < 1:
        raise ValueError(f"{len(weights)} items cannot go into {num_bins} bins")
    order = heaviest_first(weights)
    size = num_bins if equal_counts else 1
    packs = [order[start : start + size] for start in range(0, len(order), size)]
    merged = _merge_all([_partial(pack, weights, num_bins) for pack in packs], num_bins)
    bins = sorted(merged, key=lambda b: (-b[0], not b[1], min(b[1], default=0)))
    return [sorted(items) for _, items in bins]


def first_fit(weights: Sequence[int], capacity: int, max_items: int | None = None) -> list[list[int]]:
    """Return bins of at most `capacity` weight and max_items items; an item over the capacity gets a bin of its own.

    First fit, heaviest first: at most 11/9 of the fewest possible bins, plus one.
    """
    bins: list[list[int]] = []
    loads: list[int] = []
    for item in heaviest_first(weights):
        for b, load in enumerate(loads):
            if load + weights[item] <= capacity and (max_items is None or len(bins[b]) < max_items):
                bins[b].append(item)
                loads[b] += weights[item]
                break
        else:
            bins.append([item])
            loads.append(weights[item])
    return bins


def heaviest_first(weights: Sequence[int]) -> list[int]:
    """Return the indices by falling weight, ties by index."""
    return sorted(range(len(weights)), key=lambda i: (-weights[i], i))


_Bins = list[tuple[int, list[int]]]  # (sum, items) of every bin, heaviest first


def _partial(pack: Sequence[int], weights: Sequence[int], num_bins: int) -> _Bins:
    """A partial solution with one item in each of the first bins; `pack` is ordered heaviest first."""
    return [(weights[i], [i]) for i in pack] + [(0, []) for _ in range(num_bins - len(pack))]


def _merge_all(partials: Sequence[_Bins], num_bins: int) -> _Bins:
    """Merge the two partial solutions of the largest differences until one is left; ties in the order of making."""
    number = count()
    heap = [(bins[-1][0] - bins[0][0], next(number), bins) for bins in partials]
    heapq.heapify(heap)
    while len(heap) > 1:
        _, _, first = heapq.heappop(heap)
        _, _, second = heapq.heappop(heap)
        pairs = zip(first, reversed(second), strict=True)
        bins = [(a + b, mine + others) for (a, mine), (b, others) in pairs]
        bins.sort(key=lambda entry: (-entry[0], not entry[1]))
        heapq.heappush(heap, (bins[-1][0] - bins[0][0], next(number), bins))
    return heap[0][2] if heap else [(0, []) for _ in range(num_bins)]

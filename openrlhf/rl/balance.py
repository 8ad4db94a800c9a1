"""Sharing out weighted items evenly."""

import heapq
from bisect import insort
from collections.abc import Sequence
from itertools import count
from operator import itemgetter


def karmarkar_karp(weights: Sequence[int], num_bins: int, equal_counts: bool = False) -> list[list[int]]:
    """Return num_bins lists of indices into weights (0 or more), every index once, with bin sums as even as it can.

    Largest differencing (Karmarkar and Karp 1982, for any number of bins): start with one partial solution per item and
    merge the two whose bins differ most, heavy bins onto light ones, until one is left. `equal_counts`: bins hold
    ceil(n / num_bins) or one fewer items; the items then enter in packs of num_bins, one to a bin.
    With as many positive items as bins or more, no bin stays empty. Bins come heaviest first, indices rising;
    deterministic. O(n (num_bins + log n)) at worst. Raises ValueError for fewer than one bin.
    Example: weights [9, 7, 5, 3, 1], 4 bins -> [[0], [1], [2], [3, 4]].
    """
    if num_bins < 1:
        raise ValueError(f"{len(weights)} items cannot go into {num_bins} bins")
    order = heaviest_first(weights)
    size = num_bins if equal_counts else 1
    packs = [order[start : start + size] for start in range(0, len(order), size)]
    merged = _merge_all(packs, weights, num_bins)
    bins = [sorted(items) for _, items in sorted(merged, key=lambda b: (b[0], min(b[1])))]
    return bins + [[] for _ in range(num_bins - len(bins))]


def first_fit(weights: Sequence[int], capacity: int, max_items: int | None = None) -> list[list[int]]:
    """Return bins of at most `capacity` weight and max_items items; an item over the capacity gets a bin of its own.

    First fit, heaviest first: at most 11/9 of the fewest possible bins, plus one. O(n log n).
    """
    order = heaviest_first(weights)
    alone = [[item] for item in order if weights[item] > capacity]
    rest = order[len(alone) :]
    bins: list[list[int]] = [[] for _ in rest]
    width = 1 << (len(rest) - 1).bit_length() if rest else 1
    room = [capacity] * (2 * width)  # a tree: leaf width + b is bin b, a node the most room of the two below it
    for item in rest:
        node = 1
        while node < width:  # down to the first bin with room enough; one that is still empty has it
            node *= 2
            node += room[node] < weights[item]
        found = bins[node - width]
        found.append(item)
        room[node] = room[node] - weights[item] if len(found) != max_items else -1
        while node > 1:
            node //= 2
            room[node] = max(room[2 * node], room[2 * node + 1])
    return alone + [found for found in bins if found]


def heaviest_first(weights: Sequence[int]) -> list[int]:
    """Return the indices by falling weight, ties by index."""
    return sorted(range(len(weights)), key=lambda i: (-weights[i], i))


_Bins = list[tuple[int, list[int]]]  # (-sum, items) of every bin that holds items, heaviest first


def _merge_all(packs: Sequence[Sequence[int]], weights: Sequence[int], num_bins: int) -> _Bins:
    """Merge the two partial solutions of the largest differences until one is left; ties in the order of making.

    A partial solution begins with one item of a pack, which is ordered heaviest first, in each bin.
    """
    number = count()
    partials: list[_Bins] = [[(-weights[item], [item]) for item in pack] for pack in packs]
    heap = [(-_difference(bins, num_bins), next(number), bins) for bins in partials]
    heapq.heapify(heap)
    while len(heap) > 1:
        *_, bins = heapq.heappop(heap)
        *_, others = heapq.heappop(heap)
        _merge(bins, others, num_bins)
        heapq.heappush(heap, (-_difference(bins, num_bins), next(number), bins))
    return heap[0][2] if heap else []


def _difference(bins: _Bins, num_bins: int) -> int:
    """Between the heaviest and the lightest bin, which is an empty one where there is any."""
    return bins[-1][0] - bins[0][0] if len(bins) == num_bins else -bins[0][0]


def _merge(bins: _Bins, others: _Bins, num_bins: int) -> None:
    """Put the heaviest of the others onto the lightest bins, empty ones first; `others` is used up.

    Only bins that change are looked at, so that adding one item costs the search for its place.
    """
    onto = max(0, len(bins) + len(others) - num_bins)  # so many meet a bin with items: the lightest on the heaviest
    met = bins[len(bins) - onto :]
    del bins[len(bins) - onto :]
    for load, items in met:
        more, other_items = others.pop()
        items += other_items
        insort(bins, (load + more, items), key=itemgetter(0))
    for entry in reversed(others):
        insort(bins, entry, key=itemgetter(0))

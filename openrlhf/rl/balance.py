"""Sharing out weighted items evenly: the heaviest first, each to the least loaded bin that has room."""

from collections.abc import Sequence


def spread(weights: Sequence[int], num_bins: int, max_items: int | None = None) -> list[list[int]]:
    """Return num_bins lists of indices into weights (positive), every index once, at most max_items in a bin.

    Longest-processing-time rule (Graham 1969): without max_items, the heaviest bin is at most 4/3 of the best possible.
    With as many items as bins or more, no bin stays empty. Deterministic: ties go to the lower index.
    Raises ValueError if the items do not fit.
    Example: weights [9, 7, 5, 3, 1], 4 bins -> [[0], [1], [2], [3, 4]].
    """
    if max_items is not None and len(weights) > num_bins * max_items:
        raise ValueError(f"{len(weights)} items do not fit into {num_bins} bins of {max_items}")
    bins: list[list[int]] = [[] for _ in range(num_bins)]
    loads = [0] * num_bins
    for item in heaviest_first(weights):
        open_bins = [b for b in range(num_bins) if max_items is None or len(bins[b]) < max_items]
        target = min(open_bins, key=lambda b: (loads[b], len(bins[b]), b))
        bins[target].append(item)
        loads[target] += weights[item]
    return bins


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

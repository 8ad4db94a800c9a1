"""Several datasets into one order."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from openrlhf.data.errors import DataError
from openrlhf.data.stable_random import uniforms

_CHUNK = 4096


def parse_probabilities(probs: str | None, num_datasets: int) -> list[float] | None:
    """`0.7,0.3` as numbers, one per dataset, each over 0 and 1 in all; None stays None. DataError otherwise."""
    if probs is None:
        return None
    try:
        values = [float(piece) for piece in probs.split(",")]
    except ValueError as error:
        raise DataError(f"probabilities {probs!r}: expected numbers separated by commas") from error
    if len(values) != num_datasets:
        raise DataError(f"probabilities {probs!r}: {len(values)} of them for {num_datasets} datasets")
    # Not `<= 0`, so that NaN is refused too; a set of probability 0 would never be exhausted.
    if not all(value > 0 for value in values) or not math.isclose(sum(values), 1.0, abs_tol=1e-6):
        raise DataError(f"probabilities {probs!r}: each must be over 0 and all together 1; leave out unwanted datasets")
    return values


def expected_rows(lengths: Sequence[int], probabilities: Sequence[float]) -> int:
    """About how many rows `interleave` gives: the largest length / probability.

    Example: 1000 rows at 0.9 and 10 rows at 0.1 -> 1111, and at 0.999 and 0.001 -> 10000.
    """
    return math.ceil(max(length / share for length, share in zip(lengths, probabilities, strict=True)))


def interleave(lengths: Sequence[int], probabilities: Sequence[float], seed: int) -> Iterator[tuple[int, int]]:
    """(dataset, row) pairs: the dataset drawn by probability, its rows in order, until every dataset was used up once.

    A dataset that is used up before the others starts again from its first row. Every length must be over 0.
    """
    bounds = np.cumsum(np.asarray(probabilities, dtype=np.float64))[:-1]
    taken = [0] * len(lengths)
    unfinished = len(lengths)
    for stream in range(2**32):
        for source in np.searchsorted(bounds, uniforms(_CHUNK, seed, stream), side="right").tolist():
            yield source, taken[source] % lengths[source]
            taken[source] += 1
            unfinished -= taken[source] == lengths[source]
            if not unfinished:
                return

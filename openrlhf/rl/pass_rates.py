"""Means over prompts and how sure they are."""

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np

RESAMPLES = 2000
_AT_ONCE = 100  # resamples drawn at a time: bounds the memory


def pass_at_k(n: int, passed: int, k: int) -> float:
    """Unbiased estimate of P(at least one of k samples passes) from n samples of which `passed` did.

        1 - C(n - passed, k) / C(n, k)          Chen et al. 2021, arXiv:2107.03374

    ValueError unless 1 <= k <= n and 0 <= passed <= n.
    """
    if not (1 <= k <= n and 0 <= passed <= n):
        raise ValueError(f"pass@{k} of {n} samples of which {passed} passed")
    return 1.0 - math.comb(n - passed, k) / math.comb(n, k)


def interval(values: Sequence[float], confidence: float, seed: int) -> tuple[float, float]:
    """(low, high) of the mean of per-prompt values.

    A percentile bootstrap: prompts are drawn anew with replacement, `RESAMPLES` times. Prompts that all have the same
    value would give no width; then it is Wilson's interval for a rate in [0, 1] observed on so many prompts. NaN for no
    values.
    """
    if len(values) == 0:
        return math.nan, math.nan
    array = np.asarray(values, dtype=np.float64)
    if np.ptp(array) == 0:
        return wilson(float(array[0]), len(array), confidence)
    rng, count = np.random.default_rng(seed), len(array)
    draws = [rng.multinomial(count, np.full(count, 1 / count), size=_AT_ONCE) for _ in range(RESAMPLES // _AT_ONCE)]
    means = np.concatenate([weights @ array for weights in draws]) / count
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return float(low), float(high)


def wilson(rate: float, count: int, confidence: float) -> tuple[float, float]:
    """Wilson's score interval of a rate (Wilson 1927); a mean outside [0, 1] is no rate and has no width here."""
    if not 0 <= rate <= 1:
        return rate, rate
    z2 = NormalDist().inv_cdf((1 + confidence) / 2) ** 2
    centre = (rate + z2 / (2 * count)) / (1 + z2 / count)
    half = math.sqrt(z2 * (rate * (1 - rate) / count + z2 / (4 * count**2))) / (1 + z2 / count)
    return max(0.0, centre - half), min(1.0, centre + half)

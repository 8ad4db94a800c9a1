"""Random order that is the same for ever: NumPy promises PCG64's raw bits for all versions, its `permutation` not."""

import numpy as np

# Each use has bits of its own: a shuffle by the bits that chose the dataset of each row would sort by dataset.
_ORDER, _CHOICE = 1, 2


def _raw_bits(count: int, purpose: int, seed: int, stream: int) -> np.ndarray:
    if seed < 0:
        raise ValueError(f"seed must not be negative, got {seed}")
    return np.random.PCG64(np.random.SeedSequence([purpose, seed, stream])).random_raw(count)


def permutation(count: int, seed: int, stream: int) -> np.ndarray:
    """A permutation (count,) int64 that depends on seed and stream alone, not on any global generator."""
    return np.argsort(_raw_bits(count, _ORDER, seed, stream), kind="stable")


def uniforms(count: int, seed: int, stream: int) -> np.ndarray:
    """Numbers (count,) float64 in [0, 1) that depend on seed and stream alone."""
    return (_raw_bits(count, _CHOICE, seed, stream) >> np.uint64(11)) * 2.0**-53

"""Penalties on the reward of a response for its length. Lengths are sampled tokens: the environment's do not count."""

import numpy as np


def overlong_penalty(lengths: np.ndarray, limit: int, buffer: float, factor: float) -> np.ndarray:
    """Return (B,) float64, 0 or negative: the soft length limit of DAPO (Yu et al. 2025, section 3.4).

        excess = min(length - (limit - buffer), buffer)        penalty = -factor * excess / buffer where excess > 0

    So it is 0 up to limit - buffer tokens, falls linearly, and is -factor from `limit` on (several turns together may
    be longer than the limit of one). Raises ValueError unless 0 < buffer <= limit.
    Example: limit 100, buffer 20, factor 1: lengths [80, 90, 100, 130] -> [0, -0.5, -1, -1].
    """
    if not 0 < buffer <= limit:
        raise ValueError(f"overlong buffer {buffer:g} must be over 0 and at most the response limit of {limit} tokens")
    excess = np.clip(lengths - (limit - buffer), 0.0, buffer)
    return -factor * excess / buffer


def stop_properly_penalty(rewards: np.ndarray, truncated: np.ndarray, coef: float) -> np.ndarray:
    """Return (B,) float64: the rewards, with those of truncated samples changed (Liu et al. 2025, "ProRL").

    0 <= coef <= 1: a positive reward is multiplied by coef. One that is 0 or negative stays: a factor below 1 would
    raise it, and running out of tokens must never pay. coef < 0: the reward is coef. Raises ValueError for coef > 1.
    Example: rewards [1, 1, -2], truncated [yes, no, yes]: coef 0.5 -> [0.5, 1, -2], coef -0.5 -> [-0.5, 1, -0.5].
    """
    if coef > 1:
        raise ValueError(f"stop-properly coefficient {coef:g} must be at most 1: it would reward running out of tokens")
    rewards = rewards.astype(np.float64)
    changed = np.full_like(rewards, coef) if coef < 0 else np.where(rewards > 0, coef * rewards, rewards)
    return np.where(truncated, changed, rewards)

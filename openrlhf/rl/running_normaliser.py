"""Running mean and standard deviation of all rewards of a run."""

import math
from typing import Any

import numpy as np

MIN_STD = 1e-6  # rewards that hardly differ are not blown up


class RunningNormaliser:
    """(r - mean) / std, over all numbers seen so far, merged batch by batch in float64 (Chan et al. 1983).

    The standard deviation is the biased one (divided by the count). State: count, mean, sum of squared deviations.
    """

    def __init__(self) -> None:
        self.count = 0
        self.mean = 0.0
        self._squares = 0.0

    @property
    def std(self) -> float:
        """0 before the first number."""
        return math.sqrt(self._squares / self.count) if self.count else 0.0

    def update(self, rewards: np.ndarray) -> None:
        """Take rewards (n,) into the statistics. Raises FloatingPointError if one is NaN or infinite."""
        batch = rewards.astype(np.float64)
        if not np.isfinite(batch).all():
            raise FloatingPointError(f"running normalisation: rewards {batch[~np.isfinite(batch)].tolist()}")
        if len(batch) == 0:
            return
        batch_mean = float(batch.mean())
        shift, total = batch_mean - self.mean, self.count + len(batch)
        self._squares += float(np.square(batch - batch_mean).sum()) + shift**2 * self.count * len(batch) / total
        self.mean += shift * len(batch) / total
        self.count = total

    def normalise(self, rewards: np.ndarray) -> np.ndarray:
        """Return (n,) float64: (r - mean) / max(std, 1e-6) with the statistics as they are now."""
        return (rewards.astype(np.float64) - self.mean) / max(self.std, MIN_STD)

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count, "mean": self.mean, "squares": self._squares}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.count, self.mean, self._squares = int(state["count"]), float(state["mean"]), float(state["squares"])

"""KL estimators per token, and the controllers of the KL coefficient.

With d = log pi(token) - log pi_ref(token), for tokens sampled from pi (Schulman, "Approximating KL Divergence"):

    k1 = d                    unbiased, may be negative; for the reward
    k2 = d^2 / 2              biased, its gradient is that of KL; for the loss
    k3 = exp(-d) - 1 + d      unbiased, never negative; for the loss

d is clamped to +-20 before anything else, so k1 lies in [-20, 20], k2 in [0, 200], k3 in [0, e^20 + ...]; nothing
overflows. The value itself is not clamped here: that would set the gradient of a token far from the reference to 0
just where it matters. KL in the reward, which has no gradient, is clamped to +-10 in `shaping`.
"""

import math
from typing import Any, Protocol

import torch

from openrlhf.config.algo import KlConfig
from openrlhf.rl.streams import bounded

LOG_RATIO_LIMIT = 20.0  # on d: exp(20) = 4.9e8 is still harmless in float32


def kl_estimate(logprobs: torch.Tensor, ref_logprobs: torch.Tensor, estimator: str) -> torch.Tensor:
    """Return the KL estimate of each token, same shape as the inputs, which hold selected tokens only.

    estimator: k1, k2 or k3, else ValueError. A difference that is not finite gives NaN. Gradient flows to `logprobs`.
    """
    difference = bounded(logprobs - ref_logprobs, LOG_RATIO_LIMIT)
    if estimator == "k1":
        return difference
    if estimator == "k2":
        return difference.square() / 2
    if estimator == "k3":
        return torch.expm1(-difference) + difference
    raise ValueError(f"unknown KL estimator {estimator!r}, one of k1, k2, k3 is possible")


class KLController(Protocol):
    """Holds the KL coefficient; `update` is called once per rollout batch."""

    @property
    def coef(self) -> float: ...

    def update(self, kl: float | None, num_samples: int) -> None: ...

    def state_dict(self) -> dict[str, Any]: ...

    def load_state_dict(self, state: dict[str, Any]) -> None: ...


class FixedKL:
    """A constant coefficient. It has no state: after a resume the flag decides."""

    def __init__(self, coef: float) -> None:
        self.coef = max(coef, 0.0)

    def update(self, kl: float | None, num_samples: int) -> None:
        """Nothing to learn."""

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Nothing to restore."""


class AdaptiveKL:
    """Steers the measured KL towards a target (Ziegler et al. 2019, section 2.2).

    coef <- coef * (1 + clip(kl / target - 1, -0.2, 0.2) * min(num_samples / horizon, 1))

    The minimum is ours: a batch of more than five horizons could make the coefficient negative, a reward for KL.
    """

    def __init__(self, coef: float, target: float, horizon: float) -> None:
        if target <= 0 or horizon <= 0:
            raise ValueError(f"adaptive KL: target {target} and horizon {horizon} must be positive")
        self.coef = max(coef, 0.0)
        self._target = target
        self._horizon = horizon

    def update(self, kl: float | None, num_samples: int) -> None:
        """Take the mean KL of one rollout batch of num_samples samples; None (not measured) changes nothing.

        Raises FloatingPointError for a KL that is not finite.
        """
        if kl is None:
            return
        if not math.isfinite(kl):
            raise FloatingPointError(f"adaptive KL: the measured KL is {kl}")
        error = min(max(kl / self._target - 1.0, -0.2), 0.2)
        self.coef *= 1.0 + error * min(num_samples / self._horizon, 1.0)

    def state_dict(self) -> dict[str, Any]:
        return {"coef": self.coef}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """A state of a fixed coefficient, from before the target was set, is empty: then the flag decides."""
        self.coef = float(state.get("coef", self.coef))


def make_kl_controller(kl: KlConfig) -> KLController:
    """Adaptive where a target is set, else fixed."""
    if kl.target is None:
        return FixedKL(kl.init_coef)
    return AdaptiveKL(kl.init_coef, kl.target, kl.horizon)

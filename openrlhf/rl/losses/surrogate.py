"""The clipped surrogate that ppo and gspo share."""

from dataclasses import dataclass

import torch

from openrlhf.rl.losses.objective import PolicyObjective


@dataclass(frozen=True, slots=True)
class TokenLosses:
    """Of M loss tokens: the loss of each (M,) with gradient, and whether clipping acted on it (M,) bool."""

    losses: torch.Tensor
    clipped: torch.Tensor


def clipped_surrogate(ratio: torch.Tensor, advantages: torch.Tensor, objective: PolicyObjective) -> TokenLosses:
    """Return -min(ratio A, clip(ratio, 1 - low, 1 + high) A), (M,); with dual clip c and A < 0 at most -c A.

    Schulman et al. 2017 (clip), Yu et al. 2025, "DAPO" (two bounds), Ye et al. 2020 (dual clip). Not finite inputs
    give NaN.
    """
    free = ratio * advantages
    clipped = ratio.clamp(1 - objective.clip_low, 1 + objective.clip_high) * advantages
    surrogate = torch.min(free, clipped)
    if objective.dual_clip is not None:
        floor = torch.max(surrogate, objective.dual_clip * advantages)
        surrogate = torch.where(advantages < 0, floor, surrogate)
    return TokenLosses(-surrogate, clipped < free)

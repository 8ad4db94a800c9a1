"""REINFORCE++-baseline (Hu 2025): the group mean is the baseline, batch normalisation sets the scale."""

import torch

from openrlhf.rl.advantages.groups import centred


def reinforce_baseline(rewards: torch.Tensor, group_ids: torch.Tensor) -> torch.Tensor:
    """Return r - mean_g, (B,) float64; 0 throughout a constant group."""
    return centred(rewards, group_ids)

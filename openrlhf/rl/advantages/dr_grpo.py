"""Dr. GRPO (Liu et al. 2025): GRPO without the division by the group's deviation."""

import torch

from openrlhf.rl.advantages.groups import centred


def dr_grpo(rewards: torch.Tensor, group_ids: torch.Tensor) -> torch.Tensor:
    """Return r - mean_g, (B,) float64; 0 throughout a constant group."""
    return centred(rewards, group_ids)

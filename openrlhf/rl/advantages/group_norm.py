"""Group normalisation, the advantage of GRPO (Shao et al. 2024)."""

import torch

from openrlhf.rl.advantages.groups import centred, group_index

EPSILON = 1e-9


def group_norm(rewards: torch.Tensor, group_ids: torch.Tensor) -> torch.Tensor:
    """Return (r - mean_g) / (std_g + 1e-9), (B,) float64, Bessel-corrected; 0 throughout a constant group."""
    index, sizes = group_index(group_ids)
    deviation = centred(rewards, group_ids)
    squares = torch.zeros_like(sizes).index_add(0, index, deviation.square())
    std = (squares / (sizes - 1).clamp(min=1)).sqrt()
    return deviation / (std[index] + EPSILON)

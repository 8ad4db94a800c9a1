"""Leave-one-out REINFORCE (Ahmadian et al. 2024): the baseline is the mean of the other samples."""

import torch

from openrlhf.rl.advantages.groups import centred, group_index


def rloo(rewards: torch.Tensor, group_ids: torch.Tensor) -> torch.Tensor:
    """Return r - (sum_g r - r) / (n - 1), (B,) float64; 0 for a constant group and for a sample alone in its group.

    Computed as (r - mean_g) * n / (n - 1), which is the same number.
    """
    index, sizes = group_index(group_ids)
    factor = sizes / (sizes - 1).clamp(min=1)
    return centred(rewards, group_ids) * factor[index]

"""Group statistics in float64. A group is the set of samples of one prompt draw; it may hold fewer than n samples."""

import torch

CONSTANT_SPREAD = 1e-6  # a group whose rewards differ by no more is constant: rounding must not look like a signal


def group_index(group_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return (index (B,) int64 in [0, G), sizes (G,) float64) for group ids (B,) of any integers in any order."""
    _, index = group_ids.unique(return_inverse=True)
    return index, index.bincount().double()


def centred(rewards: torch.Tensor, group_ids: torch.Tensor) -> torch.Tensor:
    """Return r - mean of its group, (B,) float64; exactly 0 throughout a constant group (max - min <= 1e-6).

    Example: rewards [1, 0, 0.1, 0.1, 0.1], groups [7, 7, 3, 3, 3] -> [0.5, -0.5, 0, 0, 0].
    """
    rewards = rewards.double()
    index, sizes = group_index(group_ids)
    mean = torch.zeros_like(sizes).index_add(0, index, rewards) / sizes
    highest = torch.full_like(sizes, -torch.inf).scatter_reduce(0, index, rewards, "amax")
    lowest = torch.full_like(sizes, torch.inf).scatter_reduce(0, index, rewards, "amin")
    constant = highest - lowest <= CONSTANT_SPREAD
    return torch.where(constant[index], 0.0, rewards - mean[index])

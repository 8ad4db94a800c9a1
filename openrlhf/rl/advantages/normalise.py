"""Normalisation of advantages over a whole rollout batch."""

import torch

MIN_VARIANCE = 1e-8


def batch_normalise(advantages: torch.Tensor, mask: torch.Tensor, no_std_norm: bool = False) -> torch.Tensor:
    """Return (A - mean) / sqrt(max(var, 1e-8)), (B, T) float64, over the tokens of mask (B, T); 0 off the mask.

    The variance is the biased one (divided by the number of tokens). `no_std_norm` only subtracts the mean.
    Values off the mask are never read. An empty mask gives zeros.
    """
    result = torch.zeros_like(advantages, dtype=torch.float64)
    selected = advantages[mask].double()
    if len(selected) == 0:
        return result
    deviation = selected - selected.mean()
    if not no_std_norm:
        deviation = deviation / deviation.square().mean().clamp(min=MIN_VARIANCE).sqrt()
    result[mask] = deviation
    return result

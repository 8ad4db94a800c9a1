"""Normalisation of advantages over a whole rollout batch."""

import torch

MIN_VARIANCE = 1e-8


def batch_normalise(
    advantages: torch.Tensor, mask: torch.Tensor, no_std_norm: bool = False, statistics: torch.Tensor | None = None
) -> torch.Tensor:
    """Return (A - mean) / sqrt(max(var, 1e-8)), (B, T) float64, for the tokens of mask (B, T); 0 off the mask.

    Mean and variance are those of the tokens of `statistics` (B, T), by default of the mask. The variance is the biased
    one (divided by the number of tokens). `no_std_norm` only subtracts the mean. Values off both masks are never read.
    Without a token in `statistics` the result is 0.
    """
    result = torch.zeros_like(advantages, dtype=torch.float64)
    known = advantages[mask if statistics is None else statistics].double()
    if len(known) == 0:
        return result
    mean = known.mean()
    deviation = advantages[mask].double() - mean
    if not no_std_norm:
        deviation = deviation / (known - mean).square().mean().clamp(min=MIN_VARIANCE).sqrt()
    result[mask] = deviation
    return result

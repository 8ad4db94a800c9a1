"""Helpers for packed streams: which sequence a token belongs to, and sums over sequences."""

import torch


def sequence_index(cu_seqlens: torch.Tensor, num_tokens: int) -> torch.Tensor:
    """Return (N,) int64: the sequence s of every token, from cu_seqlens (S+1,).

    Example: cu_seqlens [0, 2, 5], 5 tokens -> [0, 0, 1, 1, 1].
    """
    lengths = cu_seqlens.diff().long()
    numbers = torch.arange(len(lengths), device=cu_seqlens.device)
    return numbers.repeat_interleave(lengths, output_size=num_tokens)


def sequence_sum(values: torch.Tensor, sequence: torch.Tensor, num_sequences: int) -> torch.Tensor:
    """Return (S,): the sum of values (M,) over the sequence (M,) each belongs to; 0 for a sequence without values."""
    return values.new_zeros(num_sequences).index_add(0, sequence, values)


def bounded(values: torch.Tensor, limit: float) -> torch.Tensor:
    """Clamp to [-limit, limit], but let what was not finite come out as NaN.

    A plain clamp would turn an infinite log-ratio of a trained token into a large finite one and hide the fault.
    The gradient is 0 where the clamp acts.
    """
    return torch.where(values.isfinite(), values.clamp(-limit, limit), torch.nan)


def sequence_mean(values: torch.Tensor, sequence: torch.Tensor, num_sequences: int) -> torch.Tensor:
    """Return (S,): the mean of values (M,) over the sequence (M,) each belongs to; 0 for a sequence without values."""
    counts = sequence_sum(torch.ones_like(values, requires_grad=False), sequence, num_sequences)
    return sequence_sum(values, sequence, num_sequences) / counts.clamp(min=1)

"""The streams that the policy loss reads, and the loss tokens taken out of them."""

from dataclasses import dataclass

import torch

from openrlhf.rl.streams import sequence_index


@dataclass(frozen=True, slots=True)
class LossStreams:
    """What the loss reads, per token of a micro-batch. Values off `loss_mask` are never used."""

    logprobs: torch.Tensor  # (N,) with gradient
    rollout_logprobs: torch.Tensor  # (N,)
    advantages: torch.Tensor  # (N,)
    loss_mask: torch.Tensor  # (N,) bool
    cu_seqlens: torch.Tensor  # (S+1,)
    old_logprobs: torch.Tensor | None = None  # (N,); None: on-policy, this step's own logprobs serve
    ref_logprobs: torch.Tensor | None = None  # (N,); needed for the KL loss, else only logged
    entropy: torch.Tensor | None = None  # (N,) with gradient where its coefficient is not 0


@dataclass(frozen=True, slots=True)
class LossTokens:
    """The M loss tokens of a micro-batch, all (M,)."""

    new: torch.Tensor  # with gradient
    old: torch.Tensor
    rollout: torch.Tensor
    advantages: torch.Tensor
    ref: torch.Tensor | None
    entropy: torch.Tensor | None
    sequence: torch.Tensor  # int64, which sequence of the micro-batch
    num_sequences: int


def select(streams: LossStreams) -> LossTokens:
    """Take the loss tokens out of every stream, before any arithmetic."""
    where = streams.loss_mask.nonzero().squeeze(-1)
    new = streams.logprobs[where]
    return LossTokens(
        new=new,
        old=new.detach() if streams.old_logprobs is None else streams.old_logprobs[where],
        rollout=streams.rollout_logprobs[where],
        advantages=streams.advantages[where],
        ref=None if streams.ref_logprobs is None else streams.ref_logprobs[where],
        entropy=None if streams.entropy is None else streams.entropy[where],
        sequence=sequence_index(streams.cu_seqlens, len(streams.loss_mask))[where],
        num_sequences=len(streams.cu_seqlens) - 1,
    )

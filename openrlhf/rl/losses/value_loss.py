"""The loss of the critic.

    value_t = 1/2 max((V_t - R_t)^2, (V_old_t + clamp(V_t - V_old_t, +-clip) - R_t)^2)
    loss    = agg(value_t)

V_old is the critic's value when the batch was made, R the return (`rl.advantages`). Taking the larger error keeps a
value from running away from V_old within one batch of experience (Schulman et al.'s PPO code, described in Huang et
al. 2022, "The 37 implementation details of PPO").
"""

from dataclasses import dataclass

import torch

from openrlhf.rl.losses.aggregation import TOKEN_MEAN, Aggregation
from openrlhf.rl.losses.share import LossShare
from openrlhf.rl.metrics import MetricSum
from openrlhf.rl.streams import sequence_index
from openrlhf.types import StepTotals


@dataclass(frozen=True, slots=True)
class ValueStreams:
    """What the loss reads, per token of a micro-batch. Values off `loss_mask` are never used.

    Index t of `values` is the value of the state in which token t was chosen.
    """

    values: torch.Tensor  # (N,) with gradient
    old_values: torch.Tensor  # (N,)
    returns: torch.Tensor  # (N,)
    loss_mask: torch.Tensor  # (N,) bool
    cu_seqlens: torch.Tensor  # (S+1,)


def value_loss(
    streams: ValueStreams, totals: StepTotals, clip: float | None, aggregation: Aggregation = TOKEN_MEAN
) -> LossShare:
    """Return this micro-batch's share of the loss and the metrics under `train/`. clip None: no clipping.

    Metrics: train/critic_loss, aggregated like the loss; train/values, the mean value of a loss token;
    train/value_clip_ratio, the share of loss tokens whose clipped error was the larger one (no gradient flows there).
    A micro-batch without loss tokens gives 0 that is still connected to `values`.
    """
    where = streams.loss_mask.nonzero().squeeze(-1)
    values, returns = streams.values[where], streams.returns[where]
    errors = (values - returns).square()
    acted = torch.zeros_like(values, dtype=torch.bool)
    if clip is not None:
        old = streams.old_values[where]
        clipped_errors = (old + (values - old).clamp(-clip, clip) - returns).square()
        acted = clipped_errors > errors
        errors = torch.max(errors, clipped_errors)
    sequence = sequence_index(streams.cu_seqlens, len(streams.loss_mask))[where]
    weights = aggregation.weigh(sequence, len(streams.cu_seqlens) - 1, values)
    loss = weights.sum(errors / 2)
    parts = [loss.detach(), weights.count, values.detach().sum(), acted.sum()]
    total, count, value_sum, acted_sum = torch.stack([part.double() for part in parts]).tolist()
    metrics = {
        "train/critic_loss": MetricSum(total, count),
        "train/values": MetricSum(value_sum, len(where)),
        "train/value_clip_ratio": MetricSum(acted_sum, len(where)),
    }
    return LossShare(loss / aggregation.denominator(totals), metrics)

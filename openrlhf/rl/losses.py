"""The policy loss over packed streams.

    ratio_t = exp(clamp(new_t - old_t, +-20))
    policy_t = -min(ratio_t A_t, clip(ratio_t, 1 - low, 1 + high) A_t); with dual clip c and A_t < 0: at most -c A_t
    loss = agg(weight_t policy_t) + kl_coef agg(kl_t) - entropy_coef agg(entropy_t)

`agg` is a mean over the WHOLE optimiser step: every rank and every micro-batch. Its denominators arrive as
`StepTotals`, so what a rank computes for a micro-batch is its SHARE of the loss: shares add up to the loss, whatever
the layout. An engine that averages gradients over data-parallel ranks needs the share multiplied by the number of
ranks, and one that divides by the accumulation steps needs it multiplied by those: that is the caller's part.

    token      sum over loss tokens / tokens of the step
    sequence   sum over sequences of their mean over loss tokens / sequences of the step that have a loss token

Only loss tokens take part: they are selected before any arithmetic, because NaN * 0 is NaN, in the gradient as well.
What is broken at a loss token comes out as NaN, and `check_finite` stops the step.
"""

import math
from dataclasses import dataclass
from typing import Literal

import torch

from openrlhf.config.algo import AlgoConfig, KlEstimator
from openrlhf.config.model import ActorConfig
from openrlhf.rl.correction import Correction, importance_weights, weight_metrics
from openrlhf.rl.kl import LOG_RATIO_LIMIT, kl_estimate
from openrlhf.rl.metrics import MetricSum
from openrlhf.rl.streams import bounded, sequence_index, sequence_sum
from openrlhf.types import StepTotals

Aggregation = Literal["token", "sequence"]


@dataclass(frozen=True, slots=True)
class PolicyObjective:
    """What the policy loss is made of; constant during a run but for the KL coefficient."""

    clip_low: float = 0.2
    clip_high: float = 0.2
    dual_clip: float | None = None
    aggregation: Aggregation = "token"
    entropy_coef: float | None = None  # None: no entropy; 0: logged only
    kl_estimator: KlEstimator = "k1"
    kl_in_loss: bool = False
    correction: Correction | None = None

    @classmethod
    def from_config(cls, actor: ActorConfig, algo: AlgoConfig) -> "PolicyObjective":
        """Raises ValueError for a loss that is not built."""
        if actor.policy_loss_type != "ppo" or actor.loss_aggregation == "constant":
            raise ValueError(
                f"policy loss {actor.policy_loss_type!r} with aggregation {actor.loss_aggregation!r} is not available"
            )
        low, high = actor.eps_clip_low_high or (actor.eps_clip, actor.eps_clip)
        return cls(
            clip_low=low,
            clip_high=high,
            dual_clip=actor.dual_clip,
            aggregation=actor.loss_aggregation,
            entropy_coef=actor.entropy_coef,
            kl_estimator=algo.kl.estimator,
            kl_in_loss=algo.kl.use_loss,
            correction=Correction.from_config(algo.advantage),
        )


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
class PolicyLoss:
    """This micro-batch's share of the loss of the optimiser step, and its parts of the metrics."""

    loss: torch.Tensor  # scalar
    metrics: dict[str, MetricSum]


@dataclass(frozen=True, slots=True)
class _Selected:
    """The M loss tokens of a micro-batch, and each one's weight in the aggregate."""

    new: torch.Tensor
    old: torch.Tensor
    rollout: torch.Tensor
    advantages: torch.Tensor
    ref: torch.Tensor | None
    entropy: torch.Tensor | None
    sequence: torch.Tensor
    num_sequences: int
    token_weight: torch.Tensor


def policy_loss(
    streams: LossStreams, totals: StepTotals, objective: PolicyObjective, kl_coef: float = 0.0
) -> PolicyLoss:
    """Return this micro-batch's share of the loss (see the module docstring) and the metrics under `train/`.

    A micro-batch without loss tokens gives 0 that is still connected to `logprobs`, so that every rank can run its
    backward pass. Raises ValueError when the objective needs a stream that is not there.
    """
    _require_streams(streams, objective, kl_coef)
    picked = _select(streams, objective.aggregation)
    denominator = (totals.tokens if objective.aggregation == "token" else totals.sequences) or 1.0
    log_ratio = bounded(picked.new - picked.old, LOG_RATIO_LIMIT)
    losses, clipped = _clipped_losses(log_ratio, picked.advantages, objective)
    metrics: dict[str, MetricSum] = {}
    if objective.correction is not None:
        weights = importance_weights(
            picked.old, picked.rollout, picked.sequence, picked.num_sequences, objective.correction
        )
        losses = losses * weights.weight
        metrics |= weight_metrics(weights)
    measured = {"train/policy_loss": losses}
    loss = _aggregate(losses, picked)
    if picked.ref is not None:
        measured["train/kl"] = kl_estimate(picked.new, picked.ref, objective.kl_estimator)
        if objective.kl_in_loss and kl_coef > 0:
            loss = loss + kl_coef * _aggregate(measured["train/kl"], picked)
    if picked.entropy is not None:
        measured["train/entropy"] = picked.entropy
        if objective.entropy_coef:
            loss = loss - objective.entropy_coef * _aggregate(picked.entropy, picked)
    metrics |= _aggregate_metrics(measured, picked) | _token_metrics(log_ratio, clipped, picked)
    return PolicyLoss(loss / denominator, metrics)


def check_finite(result: PolicyLoss, where: str) -> None:
    """Raise FloatingPointError naming `where` and what is NaN or infinite in the loss or its metrics.

    In a data-parallel run the ranks must agree before one raises, else the others wait in a collective.
    """
    numbers = {"loss": float(result.loss.detach())} | {name: metric.total for name, metric in result.metrics.items()}
    bad = [f"{name} = {value}" for name, value in numbers.items() if not math.isfinite(value)]
    if bad:
        raise FloatingPointError(f"{where}: {', '.join(bad)}; a trained token has a value that is not finite")


def _require_streams(streams: LossStreams, objective: PolicyObjective, kl_coef: float) -> None:
    if objective.kl_in_loss and kl_coef > 0 and streams.ref_logprobs is None:
        raise ValueError("the KL loss needs the reference's logprobs")
    if objective.entropy_coef is not None and streams.entropy is None:
        raise ValueError("entropy_coef is set, so the loss needs the entropy of every token")


def _select(streams: LossStreams, aggregation: Aggregation) -> _Selected:
    """Take the loss tokens out of every stream, before any arithmetic."""
    where = streams.loss_mask.nonzero().squeeze(-1)
    num_sequences = len(streams.cu_seqlens) - 1
    sequence = sequence_index(streams.cu_seqlens, len(streams.loss_mask))[where]
    new = streams.logprobs[where]
    token_weight = torch.ones_like(new)
    if aggregation == "sequence":
        token_weight = token_weight / sequence_sum(token_weight, sequence, num_sequences)[sequence]
    return _Selected(
        new=new,
        old=new.detach() if streams.old_logprobs is None else streams.old_logprobs[where],
        rollout=streams.rollout_logprobs[where],
        advantages=streams.advantages[where],
        ref=None if streams.ref_logprobs is None else streams.ref_logprobs[where],
        entropy=None if streams.entropy is None else streams.entropy[where],
        sequence=sequence,
        num_sequences=num_sequences,
        token_weight=token_weight.detach(),
    )


def _clipped_losses(
    log_ratio: torch.Tensor, advantages: torch.Tensor, objective: PolicyObjective
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the PPO loss (M,) of every token and whether the clipped surrogate (M,) was the smaller one."""
    ratio = log_ratio.exp()
    free = ratio * advantages
    clipped = ratio.clamp(1 - objective.clip_low, 1 + objective.clip_high) * advantages
    surrogate = torch.min(free, clipped)
    if objective.dual_clip is not None:
        floor = torch.max(surrogate, objective.dual_clip * advantages)
        surrogate = torch.where(advantages < 0, floor, surrogate)
    return -surrogate, clipped < free


def _aggregate(values: torch.Tensor, picked: _Selected) -> torch.Tensor:
    """Sum over tokens, or over sequences of their token means; the step's denominator is still to come."""
    return (values * picked.token_weight).sum()


def _aggregate_metrics(values: dict[str, torch.Tensor], picked: _Selected) -> dict[str, MetricSum]:
    """Metrics aggregated like the loss; token weights add up to the number of tokens, or of sequences."""
    sums = torch.stack([_aggregate(value.detach(), picked) for value in values.values()] + [picked.token_weight.sum()])
    *totals, weight = sums.double().tolist()
    return {name: MetricSum(total, weight) for name, total in zip(values, totals, strict=True)}


def _token_metrics(log_ratio: torch.Tensor, clipped: torch.Tensor, picked: _Selected) -> dict[str, MetricSum]:
    """Metrics over tokens whatever the aggregation; rollout against trainer shows the engines' mismatch."""
    count = len(log_ratio)
    if count == 0:
        return {}
    mismatch = (picked.rollout - picked.old).detach().double()
    sums = torch.stack(
        [
            -log_ratio.detach().double().sum(),
            clipped.double().sum(),
            mismatch.sum(),
            mismatch.abs().sum(),
            mismatch.abs().max(),
        ]
    ).tolist()
    return {
        "train/ppo_kl": MetricSum(sums[0], count),
        "train/ppo_clip_ratio": MetricSum(sums[1], count),
        "train/vllm_kl": MetricSum(sums[2], count),
        "train/logprobs_diff": MetricSum(sums[3], count),
        "train/logprobs_diff_max": MetricSum(sums[4], count, "max"),
    }

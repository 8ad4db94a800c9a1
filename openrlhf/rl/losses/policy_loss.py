"""The loss of the policy.

    loss = agg(weight_t policy_t) + kl_coef agg(kl_t) - entropy_coef agg(entropy_t)

policy_t is ppo, gspo or cispo (`registry`), weight_t the importance weight of a correction (`rl.correction`, 1 without
one), agg one of the means of `aggregation`.
"""

import torch

from openrlhf.rl.correction import importance_weights, raw_weight_metrics, weight_metrics
from openrlhf.rl.kl import LOG_RATIO_LIMIT, kl_estimate
from openrlhf.rl.losses.aggregation import Aggregation
from openrlhf.rl.losses.objective import PolicyObjective
from openrlhf.rl.losses.registry import PolicyLossKind, policy_loss_kind
from openrlhf.rl.losses.share import LossShare
from openrlhf.rl.losses.tokens import LossStreams, LossTokens, select
from openrlhf.rl.metrics import MetricSum
from openrlhf.rl.streams import bounded
from openrlhf.types import StepTotals


def policy_loss(
    streams: LossStreams, totals: StepTotals, objective: PolicyObjective, kl_coef: float = 0.0
) -> LossShare:
    """Return this micro-batch's share of the loss (see the module docstring) and the metrics under `train/`.

    A micro-batch without loss tokens gives 0 that is still connected to `logprobs`, so that every rank can run its
    backward pass. Raises ValueError when the objective needs a stream that is not there.
    """
    _require_streams(streams, objective, kl_coef)
    tokens = select(streams)
    aggregation = objective.aggregation
    weights = aggregation.weigh(tokens.sequence, tokens.num_sequences, tokens.new)
    kind = policy_loss_kind(objective.loss_type)
    found = kind.token_losses(tokens, objective)
    losses, metrics = _corrected(found.losses, kind, tokens, objective)
    loss = weights.sum(losses)
    total, count = _numbers(loss.detach(), weights.count)
    metrics["train/policy_loss"] = MetricSum(total, count)
    per_token: dict[str, torch.Tensor] = {}
    if tokens.ref is not None:
        per_token["train/kl"] = kl_estimate(tokens.new, tokens.ref, objective.kl_estimator)
        if objective.kl_in_loss and kl_coef > 0:
            loss = loss + kl_coef * weights.sum(per_token["train/kl"])
    if tokens.entropy is not None:
        per_token["train/entropy"] = tokens.entropy
        if objective.entropy_coef:
            loss = loss - objective.entropy_coef * weights.sum(tokens.entropy)
    metrics |= _averages(per_token, aggregation.for_metrics, tokens) | _token_metrics(found.clipped, tokens)
    return LossShare(loss / aggregation.denominator(totals), metrics)


def _require_streams(streams: LossStreams, objective: PolicyObjective, kl_coef: float) -> None:
    if objective.kl_in_loss and kl_coef > 0 and streams.ref_logprobs is None:
        raise ValueError("the KL loss needs the reference's logprobs")
    if objective.entropy_coef is not None and streams.entropy is None:
        raise ValueError("entropy_coef is set, so the loss needs the entropy of every token")


def _corrected(
    losses: torch.Tensor, kind: PolicyLossKind, tokens: LossTokens, objective: PolicyObjective
) -> tuple[torch.Tensor, dict[str, MetricSum]]:
    """Apply the importance weights where the loss does not correct by itself; log them in any case."""
    if objective.correction is None:
        return losses, {}
    weights = importance_weights(
        tokens.old, tokens.rollout, tokens.sequence, tokens.num_sequences, objective.correction
    )
    if not kind.weighted:
        return losses, raw_weight_metrics(weights)
    return losses * weights.weight, weight_metrics(weights)


def _averages(values: dict[str, torch.Tensor], aggregation: Aggregation, tokens: LossTokens) -> dict[str, MetricSum]:
    if not values:
        return {}
    weights = aggregation.weigh(tokens.sequence, tokens.num_sequences, tokens.new)
    sums = _numbers(*(weights.sum(value.detach()) for value in values.values()), weights.count)
    return {name: MetricSum(total, sums[-1]) for name, total in zip(values, sums, strict=False)}


def _numbers(*scalars: torch.Tensor) -> list[float]:
    """Bring scalars to the host at once: one wait for the device instead of many."""
    return torch.stack([scalar.double() for scalar in scalars]).tolist()


def _token_metrics(clipped: torch.Tensor, tokens: LossTokens) -> dict[str, MetricSum]:
    """Metrics over tokens whatever the aggregation.

    rollout against trainer shows the engines' mismatch: with d = rollout - old, `vllm_kl` is the mean of d and
    `vllm_kl_k3` that of exp(-d) - 1 + d; both estimate KL(rollout || trainer), the second never below 0.
    """
    count = len(clipped)
    if count == 0:
        return {}
    log_ratio = bounded(tokens.new.detach() - tokens.old, LOG_RATIO_LIMIT).double()
    mismatch = (tokens.rollout - tokens.old).detach().double()
    sums = _numbers(
        -log_ratio.sum(),
        clipped.sum(),
        mismatch.sum(),
        mismatch.abs().sum(),
        mismatch.abs().max(),
        kl_estimate(tokens.rollout.double(), tokens.old.detach().double(), "k3").sum(),
    )
    return {
        "train/ppo_kl": MetricSum(sums[0], count),
        "train/ppo_clip_ratio": MetricSum(sums[1], count),
        "train/vllm_kl": MetricSum(sums[2], count),
        "train/logprobs_diff": MetricSum(sums[3], count),
        "train/logprobs_diff_max": MetricSum(sums[4], count, "max"),
        "train/vllm_kl_k3": MetricSum(sums[5], count),
    }

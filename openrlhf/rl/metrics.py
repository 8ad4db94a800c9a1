"""Metrics that add up over micro-batches, ranks and steps, and the statistics of a batch of rollouts.

Workers return `dict[str, MetricSum]`; the driver merges them all and finalizes once, so no average of averages is
ever taken.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np

from openrlhf.types import Rollout, RolloutGroup


class MetricSum(NamedTuple):
    """The parts of one metric.

    kind "mean": total / weight. kind "max": total is the maximum so far. kind "ess": the effective sample size as a
    fraction, total^2 / (weight * square), for `weight` numbers of sum `total` and square sum `square`.
    A weight of 0 means that nothing was measured.
    """

    total: float
    weight: float
    kind: Literal["mean", "max", "ess"] = "mean"
    square: float = 0.0

    def merge(self, other: "MetricSum") -> "MetricSum":
        if self.kind != other.kind:
            raise ValueError(f"cannot merge a metric of kind {self.kind} with one of kind {other.kind}")
        if self.kind == "max":
            measured = [part.total for part in (self, other) if part.weight > 0]
            # A NaN must win: max() would drop it depending on the order.
            total = math.nan if any(map(math.isnan, measured)) else max(measured, default=0.0)
        else:
            total = self.total + other.total
        return MetricSum(total, self.weight + other.weight, self.kind, self.square + other.square)

    def value(self) -> float:
        """The number to log; only for weight > 0."""
        if self.kind == "max":
            return self.total
        if self.kind == "ess":
            return self.total**2 / (self.weight * self.square) if self.square != 0 else 0.0
        return self.total / self.weight


class PolicyStep(NamedTuple):
    """What one rank says after an optimiser step of the policy."""

    metrics: dict[str, MetricSum]
    logprobs: list[np.ndarray]  # (N,) float32 of each micro-batch, by the weights before the step


def merge(parts: Iterable[Mapping[str, MetricSum]]) -> dict[str, MetricSum]:
    """Add up metrics by name, over ranks and micro-batches alike."""
    merged: dict[str, MetricSum] = {}
    for part in parts:
        for name, metric in part.items():
            merged[name] = merged[name].merge(metric) if name in merged else metric
    return merged


def finalize(metrics: Mapping[str, MetricSum]) -> dict[str, float]:
    """The numbers to log; a metric that nothing was measured for (weight 0) is left out."""
    return {name: metric.value() for name, metric in metrics.items() if metric.weight > 0}


def rollout_metrics(groups: Sequence[RolloutGroup]) -> dict[str, float]:
    """Statistics of the samples that will be trained on, under `rollout/`.

    Lengths are tokens of a sample over all its segments: `response_length_mean` counts the sampled tokens only.
    `reward_std` is over all samples (divided by n); `group_reward_std` is the mean over groups of at least two of the
    Bessel-corrected standard deviation within the group. `constant_group_rate` is the share of groups whose rewards
    are all equal (no learning signal). `extra/<key>` is the mean of a reward function's extra log over the samples
    that have a finite one. No groups: only `rollout/num_samples` 0.
    """
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    metrics = {"rollout/num_samples": float(len(rollouts))}
    if not rollouts:
        return metrics
    rewards = np.array([rollout.outcome.reward for rollout in rollouts], dtype=np.float64)
    metrics["rollout/reward_mean"] = float(rewards.mean())
    metrics["rollout/reward_std"] = float(rewards.std())
    metrics["rollout/score_mean"] = _mean(rollout.outcome.score for rollout in rollouts)
    metrics["rollout/response_length_mean"] = _mean(rollout.num_actions for rollout in rollouts)
    metrics["rollout/total_length_mean"] = _mean(sum(len(s.token_ids) for s in r.segments) for r in rollouts)
    metrics["rollout/truncated_rate"] = _mean(rollout.truncated for rollout in rollouts)
    return metrics | _group_metrics(groups) | _extra_metrics(rollouts)


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(np.fromiter(values, dtype=np.float64)))


def _group_metrics(groups: Sequence[RolloutGroup]) -> dict[str, float]:
    rewards = [[r.outcome.reward for r in group.rollouts] for group in groups if len(group.rollouts) > 1]
    if not rewards:
        return {}
    return {
        "rollout/group_reward_std": _mean(float(np.std(g, ddof=1, dtype=np.float64)) for g in rewards),
        "rollout/constant_group_rate": _mean(max(g) - min(g) <= 1e-6 for g in rewards),
    }


def _extra_metrics(rollouts: Sequence[Rollout]) -> dict[str, float]:
    found: dict[str, list[float]] = defaultdict(list)
    for rollout in rollouts:
        for key, value in rollout.outcome.extra_logs.items():
            if math.isfinite(value):
                found[key].append(value)
    return {f"rollout/extra/{key}": _mean(values) for key, values in found.items()}

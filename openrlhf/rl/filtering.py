"""Which samples and groups are trained on: decisions about finished groups, and nothing else.

An ungraded sample has no verdict, so its reward must not be guessed (DESIGN rule 1). With dynamic filtering on, it
drops its whole group; with it off, `--reward.ungraded` decides.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from openrlhf.rl.metrics import MetricSum
from openrlhf.types import RewardOutcome, Rollout, RolloutGroup, Status

UngradedPolicy = Literal["drop_sample", "drop_group", "zero", "abort"]


class UngradedAbort(Exception):
    """A sample got no verdict and the policy is to stop the run then."""


@dataclass(frozen=True, slots=True)
class Dropped:
    """A sample or a whole group that left, and why."""

    kind: Literal["sample", "group"]
    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class FilterResult:
    """Groups in their order; a kept group may hold fewer rollouts than it came with."""

    kept: list[RolloutGroup]
    dropped: list[Dropped]
    metrics: dict[str, MetricSum]


def apply_ungraded_policy(groups: Sequence[RolloutGroup], policy: UngradedPolicy, grouped: bool) -> FilterResult:
    """Deal with the ungraded samples of finished groups.

    drop_sample: the sample leaves its group. drop_group: the group leaves. zero: the sample counts with reward and
    score 0. abort: UngradedAbort. `grouped` says that the estimator compares samples of a prompt: a group left with
    fewer than two graded samples then leaves too, as does an empty one always.
    Metrics: rollout/ungraded_rate over samples, rollout/dropped_group_rate over groups.
    """
    needed = 2 if grouped else 1
    kept: list[RolloutGroup] = []
    dropped: list[Dropped] = []
    for group in groups:
        ungraded = [rollout for rollout in group.rollouts if _is_ungraded(rollout)]
        if ungraded and policy == "abort":
            raise UngradedAbort(
                f"{len(ungraded)} of {len(group.rollouts)} samples of group {group.group_id} got no verdict, the first "
                f"is {ungraded[0].sample_id}: {ungraded[0].outcome.reason}. --reward.ungraded drop_sample goes on"
            )
        if ungraded and policy == "drop_group":
            dropped.append(Dropped("group", group.group_id, f"ungraded: {ungraded[0].outcome.reason}"))
            continue
        remaining = _zeroed(group) if policy == "zero" else _graded(group)
        if policy == "drop_sample":
            dropped += [Dropped("sample", r.sample_id, f"ungraded: {r.outcome.reason}") for r in ungraded]
        if len(remaining.rollouts) < needed:
            reason = f"{len(remaining.rollouts)} graded samples, {needed} needed"
            dropped.append(Dropped("group", group.group_id, reason))
        else:
            kept.append(remaining)
    return FilterResult(kept, dropped, _ungraded_metrics(groups, kept))


def apply_dynamic_filter(groups: Sequence[RolloutGroup], score_range: tuple[float, float]) -> FilterResult:
    """Keep a group iff low < mean score < high, both bounds exclusive, and every sample of it is graded.

    Takes the place of `apply_ungraded_policy`: with dynamic filtering on, that one is not called.
    Metrics: rollout/dynamic_filtering_pass_rate, groups kept over groups seen, and rollout/ungraded_rate.
    """
    reasons = [(group, _filter_reason(group, score_range)) for group in groups]
    kept = [group for group, reason in reasons if reason is None]
    dropped = [Dropped("group", group.group_id, reason) for group, reason in reasons if reason is not None]
    metrics = {"rollout/dynamic_filtering_pass_rate": MetricSum(len(kept), len(reasons))}
    return FilterResult(kept, dropped, metrics | _ungraded_rate(groups))


def _filter_reason(group: RolloutGroup, score_range: tuple[float, float]) -> str | None:
    """Why dynamic filtering drops this group; None: it stays."""
    low, high = score_range
    for rollout in group.rollouts:
        if _is_ungraded(rollout):
            return f"ungraded: {rollout.outcome.reason}"
    if not group.rollouts:
        return "no samples"
    mean = float(np.mean([rollout.outcome.score for rollout in group.rollouts], dtype=np.float64))
    return None if low < mean < high else f"mean score {mean:.4g} is not inside ({low:g}, {high:g})"


def _is_ungraded(rollout: Rollout) -> bool:
    return rollout.outcome.status is Status.UNGRADED


def _graded(group: RolloutGroup) -> RolloutGroup:
    return replace(group, rollouts=tuple(r for r in group.rollouts if not _is_ungraded(r)))


def _zeroed(group: RolloutGroup) -> RolloutGroup:
    return replace(group, rollouts=tuple(_with_zero(r) if _is_ungraded(r) else r for r in group.rollouts))


def _with_zero(rollout: Rollout) -> Rollout:
    reason = f"ungraded, counted as 0: {rollout.outcome.reason}"
    outcome = RewardOutcome(0.0, 0.0, Status.FAILED, reason, rollout.outcome.extra_logs)
    return replace(rollout, outcome=outcome)


def _ungraded_rate(groups: Sequence[RolloutGroup]) -> dict[str, MetricSum]:
    ungraded = sum(_is_ungraded(rollout) for group in groups for rollout in group.rollouts)
    return {"rollout/ungraded_rate": MetricSum(ungraded, sum(len(group.rollouts) for group in groups))}


def _ungraded_metrics(groups: Sequence[RolloutGroup], kept: Sequence[RolloutGroup]) -> dict[str, MetricSum]:
    gone = MetricSum(len(groups) - len(kept), len(groups))
    return {"rollout/dropped_group_rate": gone} | _ungraded_rate(groups)

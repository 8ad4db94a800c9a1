"""Which samples and groups are trained on: decisions about finished groups, and nothing else.

An ungraded sample has no verdict, so its reward must not be guessed (DESIGN rule 1). With dynamic filtering on, it
drops its whole group; with it off, `--reward.ungraded` decides. A sample without any sampled token always leaves: the
policy had no part in its reward, so there is nothing to train on, and it says nothing about the others of its group.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from openrlhf.rl.metrics import MetricSum
from openrlhf.types import RUNNER_DOWN, RewardOutcome, Rollout, RolloutGroup, Status

BOUND_WIDTH = 1e-6  # a mean this close to a bound is on it: rounding must not look like a signal

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
    score 0. abort: UngradedAbort. Samples without a sampled token leave, whatever the policy. `grouped` says that the
    estimator compares samples of a prompt: a group left with fewer than two samples then leaves too, as does an empty
    one always.
    Metrics: rollout/ungraded_rate, rollout/no_token_rate and rollout/runner_down_rate over samples,
    rollout/dropped_group_rate over groups.
    """
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
        remaining, silent = _with_tokens(remaining)
        dropped += silent
        if (reason := _too_few(remaining, grouped, len(silent))) is not None:
            dropped.append(Dropped("group", group.group_id, reason))
        else:
            kept.append(remaining)
    gone = MetricSum(len(groups) - len(kept), len(groups))
    return FilterResult(kept, dropped, {"rollout/dropped_group_rate": gone} | _sample_rates(groups))


def apply_dynamic_filter(
    groups: Sequence[RolloutGroup], score_range: tuple[float, float], grouped: bool
) -> FilterResult:
    """Keep a group iff low < mean score < high, both bounds exclusive by 1e-6, and every sample of it is graded.

    Samples without a sampled token leave before the mean is taken; `grouped` as for `apply_ungraded_policy`, in whose
    place this is called with dynamic filtering on.
    Metrics: rollout/dynamic_filtering_pass_rate, groups kept over groups seen, rollout/ungraded_rate,
    rollout/no_token_rate and rollout/runner_down_rate over samples.
    """
    kept: list[RolloutGroup] = []
    dropped: list[Dropped] = []
    for group in groups:
        remaining, silent = _with_tokens(group)
        dropped += silent
        reason = _ungraded_reason(group) or _too_few(remaining, grouped, len(silent))
        if (reason := reason or _score_reason(remaining, score_range)) is not None:
            dropped.append(Dropped("group", group.group_id, reason))
        else:
            kept.append(remaining)
    metrics = {"rollout/dynamic_filtering_pass_rate": MetricSum(len(kept), len(groups))}
    return FilterResult(kept, dropped, metrics | _sample_rates(groups))


def _ungraded_reason(group: RolloutGroup) -> str | None:
    return next((f"ungraded: {rollout.outcome.reason}" for rollout in group.rollouts if _is_ungraded(rollout)), None)


def _score_reason(group: RolloutGroup, score_range: tuple[float, float]) -> str | None:
    low, high = score_range
    mean = float(np.mean([rollout.outcome.score for rollout in group.rollouts], dtype=np.float64))
    inside = low + BOUND_WIDTH < mean < high - BOUND_WIDTH
    return None if inside else f"mean score {mean:.4g} is not inside ({low:g}, {high:g})"


def _with_tokens(group: RolloutGroup) -> tuple[RolloutGroup, list[Dropped]]:
    """The group without its samples that have no sampled token, and these."""
    silent = [Dropped("sample", r.sample_id, "no sampled token") for r in group.rollouts if r.num_actions == 0]
    return replace(group, rollouts=tuple(r for r in group.rollouts if r.num_actions)) if silent else group, silent


def _too_few(group: RolloutGroup, grouped: bool, silent: int) -> str | None:
    """Why what is left of a group cannot be trained on; None: it can. `silent` samples had no sampled token."""
    needed = 2 if grouped else 1
    if len(group.rollouts) >= needed:
        return None
    beside = f" beside {silent} without a sampled token" if silent else ""
    return f"{len(group.rollouts)} graded samples{beside}, {needed} needed"


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


def _sample_rates(groups: Sequence[RolloutGroup]) -> dict[str, MetricSum]:
    """Over all samples; of those with tools in their episode, how many found one out of order."""
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    down = [logs[RUNNER_DOWN] for rollout in rollouts if RUNNER_DOWN in (logs := rollout.outcome.extra_logs)]
    return {
        "rollout/runner_down_rate": MetricSum(sum(down), len(down)),
        "rollout/ungraded_rate": MetricSum(sum(map(_is_ungraded, rollouts)), len(rollouts)),
        "rollout/no_token_rate": MetricSum(sum(rollout.num_actions == 0 for rollout in rollouts), len(rollouts)),
    }

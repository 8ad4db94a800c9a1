"""Rewards from trained reward models: whole sequences are scored at once when the engines are done."""

from collections.abc import Sequence
from dataclasses import replace
from math import isfinite

from openrlhf.pipeline.batching import MicroBatchLimit, dispatch
from openrlhf.pipeline.job import Job
from openrlhf.reward.pending import is_pending
from openrlhf.rl.packing import collate
from openrlhf.types import RewardOutcome, Rollout, RolloutGroup

_BLANK = RewardOutcome(0.0, 0.0)  # collate takes graded samples only


def grade(job: Job, groups: Sequence[RolloutGroup]) -> list[RolloutGroup]:
    """Fill in the rewards of the samples that wait for the reward models; the score is the reward.

    A sample of several segments is judged by its last one, which holds the end of the story. A score that is not
    finite leaves its sample without a verdict. Without reward models the groups stay as they are.

    Raises:
        UngradedAbort: too many samples in a row have no verdict (reward.abort_after).
    """
    waiting = [rollout for group in groups for rollout in group.rollouts if is_pending(rollout) and rollout.segments]
    if job.cluster.reward is None or not waiting:
        return list(groups)
    outcomes = dict(zip([r.sample_id for r in waiting], map(_outcome, _scores(job, waiting)), strict=True))
    graded = [
        replace(group, rollouts=tuple(replace(r, outcome=outcomes.get(r.sample_id, r.outcome)) for r in group.rollouts))
        for group in groups
    ]
    for group in graded:
        job.verdicts.see(group)
    return graded


def _scores(job: Job, rollouts: Sequence[Rollout]) -> list[float]:
    """The reward models' score of each rollout."""
    reward = job.cluster.reward
    assert reward is not None
    by_group: dict[str, list[Rollout]] = {}
    for rollout in rollouts:
        blank = replace(rollout, segments=rollout.segments[-1:], outcome=_BLANK)
        by_group.setdefault(rollout.group_id, []).append(blank)
    experience = collate([RolloutGroup(group_id, tuple(own)) for group_id, own in by_group.items()])
    limit = MicroBatchLimit.for_scoring(job.config.rollout, job.config.train, job.config.ds)
    batches = dispatch(experience, range(len(experience)), reward.world_size, limit).batches
    by_row: dict[int, float] = {}
    for own_scores, own_batches in zip(reward.score(batches), batches, strict=True):
        for scores, batch in zip(own_scores, own_batches, strict=True):
            by_row |= zip(batch.rows.tolist(), scores.tolist(), strict=True)
    rows = {r.sample_id: row for row, r in enumerate(r for own in by_group.values() for r in own)}
    return [by_row[rows[rollout.sample_id]] for rollout in rollouts]


def _outcome(score: float) -> RewardOutcome:
    if not isfinite(score):
        return RewardOutcome.ungraded(f"the reward model's score is {score}")
    return RewardOutcome(score, score)

"""Asking the filters of tasks about samples, and letting the bad examples leave (`rl/bad_examples.py` says when).

keep -> drop (only where nothing is masked) -> make_experience -> mark -> advantages -> leave -> update

The reference's perplexity is known only once the experience is made: a sample that is bad by it alone, where bad
examples are dropped, stays in the baseline of its group and leaves before the batch normalisation.
"""

import logging
from collections.abc import Sequence

import numpy as np

from openrlhf.config.algo import BadExamplesConfig
from openrlhf.env.task_filters import FilterVerdict, filter_verdict
from openrlhf.pipeline.job import Job
from openrlhf.pipeline.length import response_limit
from openrlhf.pipeline.report import StepReport
from openrlhf.rl.advantages.registry import estimator
from openrlhf.rl.bad_examples import base_perplexity, drop_bad_examples, token_masks
from openrlhf.types import Experience, Rollout, RolloutGroup

logger = logging.getLogger(__name__)


def drop(job: Job, groups: list[RolloutGroup], report: StepReport) -> list[RolloutGroup]:
    """The groups without bad examples, where these are to leave before anything is computed from them."""
    flags = job.config.algo.bad_examples
    if not flags.filter_enable or not groups:
        return groups
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    verdicts = _ask(job, rollouts, [None] * len(rollouts))
    report.metrics |= _rates(verdicts)
    if not _drops(flags):
        return groups
    bad = {rollout.sample_id for rollout, verdict in zip(rollouts, verdicts, strict=True) if verdict.bad}
    grouped = estimator(job.config.algo.advantage.estimator).grouped
    return drop_bad_examples(groups, bad, grouped).kept


def mark(job: Job, groups: Sequence[RolloutGroup], experience: Experience, report: StepReport) -> None:
    """Fill in which rows are bad examples; a row's sample id counts the groups' samples, with rows or without."""
    flags = job.config.algo.bad_examples
    if not flags.filter_enable:
        return
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    perplexities = base_perplexity(experience, len(rollouts))
    known = [None] * len(rollouts) if perplexities is None else perplexities.tolist()
    verdicts = _ask(job, rollouts, known)
    bad = np.array([bool(verdict.bad) for verdict in verdicts])
    experience.bad_examples = bad[experience.sample_ids]
    if not _drops(flags):
        report.metrics |= _rates(verdicts)


def leave(job: Job, experience: Experience) -> bool:
    """Take the bad examples out of the loss; whether anything is left of it."""
    if experience.bad_examples is not None:
        experience.loss_mask = token_masks(experience, job.config.algo.bad_examples.advantage_mask).trained
    if experience.loss_mask.any():
        return True
    why = ": all samples are bad examples" if experience.bad_examples is not None else ""
    logger.warning("step %d: no token is left to train on%s", job.step + 1, why)
    return False


def _drops(flags: BadExamplesConfig) -> bool:
    """Whether bad examples leave before the baseline of their group is computed."""
    return not flags.loss_mask_enable and flags.advantage_mask == "none"


def _ask(job: Job, rollouts: Sequence[Rollout], perplexities: Sequence[float | None]) -> list[FilterVerdict]:
    limit = response_limit(job.config.rollout, job.config.data)
    return [filter_verdict(r, limit, perplexity) for r, perplexity in zip(rollouts, perplexities, strict=True)]


def _rates(verdicts: Sequence[FilterVerdict]) -> dict[str, float]:
    """Shares of the samples whose tasks have such a filter."""
    asked = {
        "rollout/good_sample_rate": [verdict.good for verdict in verdicts if verdict.good is not None],
        "rollout/bad_example_rate": [verdict.bad for verdict in verdicts if verdict.bad is not None],
    }
    return {name: float(np.mean(answers)) for name, answers in asked.items() if answers}

"""Asks the filters of tasks about finished samples."""

from collections.abc import Mapping
from dataclasses import dataclass

from openrlhf.env.filter_config import EXP_FILTER, FILTER_FN_CONFIG, SAMPLE_FILTER
from openrlhf.env.label import read_label
from openrlhf.env.legacy import task_filter
from openrlhf.env.task import REWARD, SCORE, FilterSample
from openrlhf.env.task_rewards import response_tokens
from openrlhf.types import Rollout, Status


@dataclass(frozen=True, slots=True)
class FilterVerdict:
    """What the filters of a sample's task say; None: the task has no such filter, or the sample no task."""

    good: bool | None
    bad: bool | None


def filter_verdict(rollout: Rollout, max_tokens: int, base_perplexity: float | None = None) -> FilterVerdict:
    """Ask the sample's task. `max_tokens`: the most that its response could have had.

    A sample without a verdict or without a task is neither good nor bad.
    """
    task = rollout.prompt.task
    if task is None or rollout.outcome.status is Status.UNGRADED:
        return FilterVerdict(None, None)
    sample = FilterSample(
        label=read_label(rollout.prompt.label),
        logs=_numbers(rollout),
        num_tokens=response_tokens(rollout.segments),
        max_tokens=max_tokens,
        truncated=rollout.truncated,
        base_perplexity=base_perplexity,
    )
    return FilterVerdict(_ask(f"{task}_{SAMPLE_FILTER}", sample), _ask(f"{task}_{EXP_FILTER}", sample))


def _numbers(rollout: Rollout) -> Mapping[str, float]:
    return {**rollout.outcome.extra_logs, REWARD: rollout.outcome.reward, SCORE: rollout.outcome.score}


def _ask(name: str, sample: FilterSample) -> bool | None:
    function = FILTER_FN_CONFIG.get(name)
    return None if function is None else task_filter(name, function)(sample)

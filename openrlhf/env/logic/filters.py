"""Filters of the logic tasks kk, zebralogic and synlogic."""

from openrlhf.env.filters import cut_off, good, no_rule_verdict, strange, void
from openrlhf.env.task import FilterSample

THRESHOLD = 0.1  # of repeatness


def logic_sample_filter(sample: FilterSample) -> bool:
    """Whether a sample is good: right, without much repetition. Only counted."""
    return good(sample, THRESHOLD)


def logic_exp_filter(sample: FilterSample) -> bool:
    """Whether a sample is a bad example: cut off without a right answer, void, or strange."""
    return cut_off(sample, sample.max_tokens + 1) or void(sample) or strange(sample)


def logic_reward_fail(sample: FilterSample) -> bool:
    """Whether a sample has no verdict: its check failed. Comparing words, as kk and zebralogic do, never fails."""
    return no_rule_verdict(sample)

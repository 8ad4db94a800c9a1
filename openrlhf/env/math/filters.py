"""Filters of the tasks math and math_tir."""

from openrlhf.env.filters import RIGHT, cut_off, good, no_rule_verdict, strange, void
from openrlhf.env.task import FilterSample

THRESHOLD = 0.05  # of repeatness
MARGIN = 128  # tokens before the limit that count as cut off in math


def math_sample_filter(sample: FilterSample) -> bool:
    """Whether a sample is good: right, without much repetition. Only counted."""
    return good(sample, THRESHOLD)


def math_exp_filter(sample: FilterSample) -> bool:
    """Whether a sample is a bad example: cut off without a right answer, void, or strange."""
    return cut_off(sample, sample.max_tokens - MARGIN) or void(sample) or strange(sample)


def math_tir_exp_filter(sample: FilterSample) -> bool:
    """As for math, cut off at the limit itself; also one whose code blocks, outputs and runs do not fit together.

    Such a mismatch is bad in a right answer, and in one of good form unless every run failed.
    """
    if cut_off(sample, sample.max_tokens) or void(sample) or strange(sample):
        return True
    well_formed = sample.log("format_answer") <= RIGHT
    excused = sample.log("code_all_failed") > RIGHT
    return code_mismatch(sample) and (sample.score > RIGHT or (well_formed and not excused))


def code_mismatch(sample: FilterSample) -> bool:
    """Whether code blocks, outputs and runs are not equally many, or a block was opened and not closed."""
    blocks, outputs = sample.log("code_count"), sample.log("output_count")
    return blocks != outputs or blocks != sample.log("partial_code_count") or outputs != sample.log("code_runs")


def math_reward_fail(sample: FilterSample) -> bool:
    """Whether a sample has no verdict: the comparison failed, and no judging model knew better."""
    return no_rule_verdict(sample) and sample.logs.get("model_eval_fails", 1.0) > RIGHT

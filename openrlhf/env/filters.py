"""What makes a sample a bad example, or a good one: the parts that the filters of several tasks share."""

from openrlhf.env.label import number_of
from openrlhf.env.task import FilterSample

MAX_BASE_PERPLEXITY = 5.0
RIGHT = 0.5
_VOID_REPEATNESS, _VOID_REPETITION = 0.2, 0.6


def good(sample: FilterSample, threshold: float) -> bool:
    """A right answer without much repetition. The label's `repeatness_threshold` goes before `threshold`."""
    most = number_of(sample.label, "repeatness_threshold", threshold)
    return sample.score > 0.05 and sample.log("repeatness") <= most


def cut_off(sample: FilterSample, limit: int) -> bool:
    """Truncated, or of `limit` tokens and more, without a right answer."""
    return (sample.truncated or sample.num_tokens >= limit) and sample.score <= RIGHT


def void(sample: FilterSample) -> bool:
    """Of bad form, and mostly repetition."""
    repeats = sample.log("repeatness") > _VOID_REPEATNESS or sample.log("repetition_penalty") > _VOID_REPETITION
    return sample.log("format_answer") > RIGHT and repeats


def strange(sample: FilterSample) -> bool:
    """Ended in no known way, or hard to believe for the reference policy (perplexity over 5)."""
    unlikely = sample.base_perplexity is not None and sample.base_perplexity > MAX_BASE_PERPLEXITY
    return sample.log("other") > RIGHT or unlikely


def no_rule_verdict(sample: FilterSample) -> bool:
    """The verifier failed."""
    return sample.log("rule_eval_fails") > RIGHT

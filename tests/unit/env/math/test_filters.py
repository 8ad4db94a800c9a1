"""Filters of math and math_tir, one rule at a time."""

import pytest

from openrlhf.env.math.filters import math_exp_filter, math_reward_fail, math_sample_filter, math_tir_exp_filter
from tests.unit.env.samples import filter_sample

FITTING = {"code_count": 1, "output_count": 1, "partial_code_count": 1, "code_runs": 1}


@pytest.mark.parametrize(
    ("changes", "bad"),
    [
        ({}, False),
        ({"truncated": True}, True),
        ({"num_tokens": 871}, False),
        ({"num_tokens": 872}, True),  # 1000 - 128
        ({"format_answer": 1.0}, False),
        ({"format_answer": 1.0, "repeatness": 0.21}, True),
        ({"format_answer": 1.0, "repetition_penalty": 0.61}, True),
        ({"format_answer": 0.0, "repeatness": 0.9}, False),
        ({"other": 1.0}, True),
        ({"base_perplexity": 5.0}, False),
        ({"base_perplexity": 5.1}, True),
    ],
)
def test_bad_examples_of_math(changes, bad):
    assert math_exp_filter(filter_sample(0.0, **changes)) is bad


def test_a_right_answer_that_was_cut_off_is_no_bad_example():
    assert not math_exp_filter(filter_sample(1.0, truncated=True, num_tokens=1000))


@pytest.mark.parametrize(
    ("score", "changes", "bad"),
    [
        (0.0, FITTING, False),
        (0.0, {"num_tokens": 999}, False),
        (0.0, {"num_tokens": 1000}, True),
        (1.0, FITTING | {"output_count": 0}, True),
        (1.0, FITTING | {"partial_code_count": 2}, True),
        (1.0, FITTING | {"code_runs": 2}, True),
        (0.0, FITTING | {"output_count": 0}, True),  # of good form
        (0.0, FITTING | {"output_count": 0, "code_all_failed": 1.0}, False),  # every run failed
        (0.0, FITTING | {"output_count": 0, "format_answer": 1.0}, False),
    ],
)
def test_bad_examples_of_math_tir(score, changes, bad):
    assert math_tir_exp_filter(filter_sample(score, **changes)) is bad


@pytest.mark.parametrize(
    ("score", "repeated", "label", "good"),
    [
        (1.0, 0.05, {}, True),
        (1.0, 0.06, {}, False),
        (0.05, 0.0, {}, False),
        (1.0, 0.2, {"repeatness_threshold": 0.3}, True),
    ],
)
def test_good_samples(score, repeated, label, good):
    assert math_sample_filter(filter_sample(score, label, repeatness=repeated)) is good


@pytest.mark.parametrize(
    ("changes", "fails"),
    [({}, False), ({"rule_eval_fails": 1.0}, True), ({"rule_eval_fails": 1.0, "model_eval_fails": 0.0}, False)],
)
def test_no_verdict_needs_both_to_fail(changes, fails):
    assert math_reward_fail(filter_sample(0.0, **changes)) is fails

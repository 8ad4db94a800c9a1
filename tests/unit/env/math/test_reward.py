"""Rewards of math and math_tir: the verdict on the answer plus the terms that are switched on."""

import pytest

from openrlhf.env.errors import EnvError
from openrlhf.env.math.reward import check_math_label, math_reward, math_tir_reward
from tests.unit.env.samples import ScriptedVerifier, task_sample, tools

ZERO = {"gold_ans": "7", "template": "ZERO_V2"}
GOOD = r"so </think> <answer> \boxed{7} </answer>"


async def numbers(reward, sample, kit):
    answer = await reward(sample, kit)
    return answer["rewards"], answer["answer_rewards"]


@pytest.mark.parametrize(("rule", "expected"), [(1.0, (1.0, 1.0)), (0.0, (0.0, 0.0)), (None, (None, None))])
async def test_the_verdict_is_the_reward(rule, expected):
    assert await numbers(math_reward, task_sample(r"\boxed{7}<eos>"), tools(rule)) == expected


@pytest.mark.parametrize(
    ("rule", "model", "expected", "asked"),
    [(1.0, 0.0, 1.0, 0), (0.0, 1.0, 1.0, 1), (0.0, None, 0.0, 1), (None, 1.0, 1.0, 1), (None, None, None, 1)],
)
async def test_the_better_of_two_verdicts_and_none_of_none(rule, model, expected, asked):
    judge = ScriptedVerifier(model)
    answer = await math_reward(task_sample(r"\boxed{7}"), tools(rule, judge))
    assert answer["answer_rewards"] == expected
    assert judge.asked == [("What is 3+4?", "7", "7")] * asked
    assert answer["rule_eval_fails"] == (rule is None)


async def test_a_response_that_did_not_end_or_has_a_bad_form_is_not_verified():
    kit = tools(1.0)
    cut = task_sample(r"\boxed{7}", finish_reason="length")
    assert await numbers(math_reward, cut, kit) == (0.0, 0.0)
    assert await numbers(math_reward, task_sample("7", ZERO), kit) == (0.0, 0.0)
    assert kit.math.asked == []


async def test_the_value_of_the_form_enters_where_it_is_switched_on():
    no_tags = task_sample(r"\boxed{7}", ZERO)
    assert await numbers(math_reward, no_tags, tools(1.0, format_enable=True)) == (-3.0, 0.0)
    trailing = task_sample(GOOD + " a b c d e f", ZERO)
    assert await numbers(math_reward, trailing, tools(1.0, format_enable=True)) == (-0.5, 0.0)
    assert await numbers(math_reward, task_sample(GOOD, ZERO), tools(1.0, format_enable=True)) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("response", "label", "asked"),
    [
        (r"so </think> <answer>\boxed{5}</answer> \boxed{7}", ZERO, r"\boxed{5}"),
        # Of good form, but no answer: all of it is thinking.
        (r"<answer>\boxed{7}</answer> </think> so", ZERO, ""),
        (r"<answer>\boxed{5}</answer> \boxed{7}", {"gold_ans": "7"}, r"<answer>\boxed{5}</answer> \boxed{7}"),
    ],
)
async def test_with_a_template_the_answer_stands_inside_the_tags(response, label, asked):
    kit = tools(0.0, judge := ScriptedVerifier(0.0))
    await math_reward(task_sample(response, label), kit)
    assert [said for _, said, _ in kit.math.asked] == [asked]
    boxed = {r"\boxed{5}": ["5"], "": []}.get(asked, ["7"])  # what the judging model is asked about
    assert [said for _, said, _ in judge.asked] == boxed


async def test_overlong_shortcut_and_quality():
    long = task_sample(r"\boxed{7}", num_tokens=744)  # (744 - 488) / 512 = 0.5
    assert await numbers(math_reward, long, tools(1.0, overlong_enable=True)) == (0.5, 1.0)
    repeated = task_sample("and so on " * 20 + r"\boxed{7}")  # repeatness over 0.1
    assert await numbers(math_reward, repeated, tools(1.0, shortcut_enable=True)) == (0.0, 0.0)
    assert await numbers(math_reward, repeated, tools(1.0, quality_enable=True)) == (0.9, 1.0)
    harsh = task_sample(repeated.response, {"gold_ans": "7", "repeatness_penalty": 0.4})
    assert await numbers(math_reward, harsh, tools(1.0, quality_enable=True)) == (0.6, 1.0)
    lenient = task_sample(repeated.response, {"gold_ans": "7", "repeatness_threshold": 0.99})
    assert await numbers(math_reward, lenient, tools(1.0, quality_enable=True)) == (1.0, 1.0)


@pytest.mark.parametrize(("reward", "reflected"), [(math_reward, 1.25), (math_tir_reward, 1.0)])
async def test_patterns(reward, reflected):
    kit = tools(1.0, pattern_bonus=0.25)
    assert await numbers(reward, task_sample(r"Alternatively, \boxed{7}"), kit) == (1.25, 1.0)
    assert await numbers(reward, task_sample(r"Wait, \boxed{7}"), kit) == (reflected, 1.0)
    wrong = tools(0.0, pattern_bonus=0.25)
    assert await numbers(reward, task_sample(r"Alternatively, \boxed{7}"), wrong) == (0.0, 0.0)


CODE = "```python\nprint(7)\n```\n```output\n7\n```\n" + r"\boxed{7}"


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ({"code_runs": 1}, 1.25),
        ({"code_runs": 1, "code_errors": 1}, 1.0),  # all failed: no bonus, and one run is not mostly failing
        ({"code_runs": 2, "code_errors": 2}, 0.9),
        ({"code_runs": 10, "code_errors": 9}, 1.25),  # nine in ten are not over nine in ten
    ],
)
async def test_use_of_code(facts, expected):
    kit = tools(1.0, tool_bonus=0.25, code_errors_enable=True)
    reward, score = await numbers(math_tir_reward, task_sample(CODE, facts=facts), kit)
    assert (reward, score) == (pytest.approx(expected), 1.0)


async def test_what_filters_read():
    answer = await math_tir_reward(task_sample(CODE, facts={"code_runs": 1}), tools(0.0))
    assert answer["code_count"] == answer["output_count"] == answer["partial_code_count"] == answer["code_runs"] == 1
    assert (answer["format_answer"], answer["truncated"], answer["finish_reason"], answer["other"]) == (0, 0, 1, 0)


@pytest.mark.parametrize(
    ("label", "said"),
    [
        ({}, "gold_ans"),
        ({"gold_ans": " "}, "gold_ans"),
        ({"gold_ans": "{'ground_truth': '7'}"}, "the right answer .* is a dict or list"),
        ({"gold_ans": ["7"]}, "the right answer .* is a dict or list"),
        ({"gold_ans": "7", "template": "x"}, "ZERO_V2"),
        ({"gold_ans": "7", "repeatness_threshold": "high"}, "'repeatness_threshold' must be a number, not 'high'"),
        ({"gold_ans": "7", "repeatness_penalty": []}, "'repeatness_penalty' must be a number"),
    ],
)
def test_labels_that_cannot_be_graded(label, said):
    with pytest.raises(EnvError, match=said):
        check_math_label(label)
    check_math_label({"answer": 7})
    check_math_label({"answer": [1, 2]})
    check_math_label({"answer": r'{"solution": "\boxed{7}"}'})  # of a label with a box the box counts

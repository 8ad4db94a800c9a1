"""The example `examples/python/math_reward_func.py`, called as training calls it (public cases g1 and g2)."""

import asyncio
import math
from pathlib import Path

import pytest

from openrlhf.reward.python_function import PythonReward
from openrlhf.types import Prompt, Status

FILE = Path(__file__).parents[2] / "examples/python/math_reward_func.py"
PROMPT = r"<|im_start|>user Put the answer in \boxed{}, as in \boxed{9}. 3 + 4?<|im_end|><|im_start|>assistant"


@pytest.fixture(scope="module")
def loaded():
    source = PythonReward(FILE)
    yield source
    source._function.__globals__["POOL"].close()


async def score(source, response, label="7", query=None):
    return await source.score(PROMPT + response if query is None else query, Prompt(0, PROMPT, label), response)


async def test_the_last_box_after_the_prompt_counts(loaded):
    response = r"First I get \boxed{5}. No; corrected: \boxed{7}.<|im_end|>"
    right, wrong = await score(loaded, response, "7"), await score(loaded, response, "5")
    assert (right.reward, right.score, right.extra_logs) == (1.0, 1.0, {"has_boxed_answer": 1.0})
    assert (wrong.reward, wrong.status) == (0.0, Status.GRADED)
    without = await score(loaded, "It is 9.", "9")  # the prompt's own \boxed{9} is no answer
    assert (without.reward, without.extra_logs) == (0.0, {"has_boxed_answer": 0.0})


async def test_from_many_threads_at_once(loaded):
    outcomes = await asyncio.gather(*(score(loaded, rf"\boxed{{\frac{{{n}}}{{3}}}}", r"\frac13") for n in range(4)))
    assert [outcome.reward for outcome in outcomes] == [0.0, 1.0, 0.0, 0.0]


async def test_a_query_without_its_prompt_has_no_verdict(loaded):
    outcome = await score(loaded, "", "7", query=r"\boxed{7}")
    assert outcome.status is Status.UNGRADED


async def test_a_missing_label_is_no_verdict(loaded):
    assert (await score(loaded, r"\boxed{7}", "")).status is Status.UNGRADED


def test_a_batch_gives_one_verdict_each(loaded):
    answers = ["7", "8", r"\frac{14}{2}"]
    out = loaded._function([PROMPT + rf"\boxed{{{a}}}" for a in answers] + ["x"], [PROMPT] * 4, ["7"] * 4)
    *graded, last = out["rewards"].tolist()
    assert graded == [1.0, 0.0, 1.0]
    assert math.isnan(last)
    assert out["extra_logs"]["has_boxed_answer"] == [1.0, 1.0, 1.0, 0.0]

"""From a finished sample to its outcome, by the task of its prompt; and what filters say of it."""

import asyncio
import json
import math
from types import SimpleNamespace
from typing import ClassVar

import pytest

from openrlhf.config.env import EnvConfig
from openrlhf.env import filter_config, reward_config
from openrlhf.env.check import check_prompts
from openrlhf.env.errors import EnvError
from openrlhf.env.filter_config import FILTER_FN_CONFIG
from openrlhf.env.reward_config import REWARD_CONFIG
from openrlhf.env.task_filters import FilterVerdict, filter_verdict
from openrlhf.env.task_rewards import TaskRewards
from openrlhf.rollout.single_turn import single_turn_segment
from openrlhf.types import Prompt, RewardOutcome, Rollout, Status, Trajectory
from tests.fakes import FakeTokenizer, completion
from tests.unit.env.samples import tools

MATH = Prompt(0, "What is 3+4?", json.dumps({"uuid": "a", "gold_ans": "7"}), task="math")


def trajectory(text: str, truncated: bool = False, facts: dict[str, float] | None = None) -> Trajectory:
    return Trajectory((single_turn_segment([5, 6], completion(text)),), truncated, facts=facts or {})


async def score(prompt, text, kit=None, truncated=False, facts=None, max_tokens=100):
    rewards = TaskRewards(EnvConfig(), FakeTokenizer(), kit or tools())
    return await rewards.score(prompt, trajectory(text, truncated, facts), text + "<eos>", max_tokens)


@pytest.fixture
def registry(monkeypatch):
    """Registers a task for one test."""

    def register(name, reward, **filters):
        monkeypatch.setitem(reward_config.REWARD_CONFIG, name, reward)
        for kind, function in filters.items():
            monkeypatch.setitem(filter_config.FILTER_FN_CONFIG, f"{name}_{kind}_fn", function)
        return Prompt(0, "Q", "label", task=name)

    return register


async def test_a_graded_sample():
    outcome = await score(MATH, r"\boxed{7}")
    assert (outcome.reward, outcome.score, outcome.status) == (1.0, 1.0, Status.GRADED)
    assert outcome.extra_logs["format_answer"] == 0.0
    assert "rewards" not in outcome.extra_logs


async def test_a_verifier_that_fails_is_no_verdict_and_never_0():
    outcome = await score(MATH, r"\boxed{7}", tools(None))
    assert outcome.status is Status.UNGRADED
    assert math.isnan(outcome.reward)
    assert outcome.reason == "task math: its verifiers failed"


async def test_a_truncated_sample_is_wrong_and_not_verified():
    outcome = await score(MATH, r"\boxed{7}", tools(None), truncated=True)
    assert (outcome.reward, outcome.status) == (0.0, Status.GRADED)


async def test_what_a_reward_sees(registry):
    seen = []

    async def reward(sample, kit):
        seen.append(sample)
        return {"rewards": [0.5], "answer_rewards": [True], "note": "text", "many": [1, 2]}

    outcome = await score(registry("mine", reward), "abc", facts={"code_runs": 2.0})
    (sample,) = seen
    assert (sample.text, sample.label, sample.fact("code_runs")) == ("abc", {"gold_ans": "label"}, 2.0)
    assert (sample.num_tokens, sample.max_tokens, sample.count_tokens("xyz")) == (4, 100, 3)  # abc and the end token
    assert (outcome.reward, outcome.score, dict(outcome.extra_logs)) == (0.5, 1.0, {})


async def test_every_special_token_of_the_tokenizer_ends_a_text(registry):
    class Gemma(FakeTokenizer):
        all_special_tokens = ("<eos>", "<bos>")
        added_tokens_decoder: ClassVar = {
            106: SimpleNamespace(content="<end_of_turn>", special=True),
            107: SimpleNamespace(content="<b>", special=False),
        }

    async def reward(sample, kit):
        return {"rewards": float(sample.text == "7<b>")}

    rewards = TaskRewards(EnvConfig(), Gemma(), tools())
    outcome = await rewards.score(registry("mine", reward), trajectory("7"), "7<b><end_of_turn>", 100)
    assert outcome.reward == 1.0


async def test_a_label_that_passes_the_check_at_loading_can_be_graded():
    label = {"uuid": "a", "gold_ans": "7", "template": None, "question": None, "repeatness_threshold": None}
    prompt = Prompt(0, "Q", json.dumps(label | {"repeatness_penalty": None}), task="math")
    check_prompts([prompt])
    kit = tools(1.0, quality_enable=True)
    outcome = await score(prompt, "and so on " * 20 + r"\boxed{7}", kit)
    assert outcome.reward == 0.9  # 1, and 0.1 less for repetition over 0.05, where the label does not say
    segment = single_turn_segment([5, 6], completion("x"))
    rollout = Rollout("g", "s", prompt, (segment,), outcome, truncated=False)
    assert filter_verdict(rollout, 100).good is False  # over the filter's own 0.05


@pytest.mark.parametrize(
    "value", [None, [None], math.nan, math.inf, 1e39, [-1e39], 10**400, -(10**400)], ids=lambda value: str(value)[:9]
)
async def test_no_number_that_float32_holds_is_no_verdict(registry, value):
    async def reward(sample, kit):
        return {"rewards": value}

    assert (await score(registry("mine", reward), "abc")).status is Status.UNGRADED


async def test_a_log_beyond_every_float_is_left_out(registry):
    async def reward(sample, kit):
        return {"rewards": 1.0, "answer_rewards": 0.5, "steps": 10**400, "big": 1e39}

    outcome = await score(registry("mine", reward), "abc")
    assert (outcome.reward, outcome.score, outcome.extra_logs) == (1.0, 0.5, {"big": 1e39})


@pytest.mark.parametrize(
    ("answer", "said"),
    [(None, "a NoneType"), ({"reward": 1}, "keys reward"), ({"rewards": "1"}, "expected a number")],
)
async def test_a_wrong_answer_ends_the_run_and_names_the_task(registry, answer, said):
    async def reward(sample, kit):
        return answer

    with pytest.raises(EnvError, match=rf"task mine: .*{said}"):
        await score(registry("mine", reward), "abc")


async def test_a_reward_that_raises_ends_the_run_and_names_the_line(registry):
    async def reward(sample, kit):
        raise KeyError("gold")

    with pytest.raises(EnvError, match=r"task mine: its reward raised KeyError: 'gold' at .*test_task_rewards\.py:\d+"):
        await score(registry("mine", reward), "abc")


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError


@pytest.mark.parametrize(
    ("error", "said"),
    [(SystemExit(2), "SystemExit: 2"), (Mute(), "Mute: .its message cannot be shown"), (GeneratorExit(), "Generator")],
)
async def test_what_else_a_reward_raises_is_one_line_too(registry, error, said):
    async def reward(sample, kit):
        raise error

    with pytest.raises(EnvError, match=f"task mine: its reward raised {said}"):
        await score(registry("mine", reward), "abc")


async def test_a_cancellation_of_its_own_is_the_rewards_fault_and_anothers_is_not(registry):
    async def own(sample, kit):
        raise asyncio.CancelledError

    with pytest.raises(EnvError, match="task mine: its reward raised CancelledError"):
        await score(registry("mine", own), "abc")

    async def slow(sample, kit):
        await asyncio.sleep(60)

    task = asyncio.create_task(score(registry("mine", slow), "abc"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_filter_that_raises_ends_the_run_and_names_the_line(registry):
    async def reward(sample, kit):
        return {"rewards": 1.0}

    prompt = registry("mine", reward, reward_fail=lambda sample: 1 / 0)
    with pytest.raises(EnvError, match=r"filter mine_reward_fail_fn raised ZeroDivisionError: .* at .*\.py:\d+"):
        await score(prompt, "abc")


async def test_the_tasks_own_filter_decides_about_no_verdict(registry):
    async def reward(sample, kit):
        return {"rewards": 1.0, "down": 1.0}

    prompt = registry("mine", reward, reward_fail=lambda sample: sample.log("down"))
    assert (await score(prompt, "abc")).status is Status.UNGRADED


def test_every_task_has_all_three_filters():
    kinds = ("sample_filter_fn", "exp_filter_fn", "reward_fail_fn")
    assert set(FILTER_FN_CONFIG) == {f"{task}_{kind}" for task in REWARD_CONFIG for kind in kinds}
    assert set(REWARD_CONFIG) == {"math", "math_tir", "kk", "zebralogic", "synlogic"}  # seed 001's


def rollout(prompt: Prompt, outcome: RewardOutcome, truncated: bool = False) -> Rollout:
    return Rollout("g", "g/0", prompt, trajectory("abc").segments, outcome, truncated)


def test_filters_are_asked_with_the_numbers_of_the_reward():
    assert filter_verdict(rollout(MATH, RewardOutcome(1.0, 1.0)), 1000) == FilterVerdict(good=True, bad=False)
    repeated = RewardOutcome(1.0, 1.0, extra_logs={"repeatness": 0.5})
    assert filter_verdict(rollout(MATH, repeated), 1000) == FilterVerdict(good=False, bad=False)
    assert filter_verdict(rollout(MATH, RewardOutcome(0.0, 0.0), truncated=True), 1000).bad is True
    assert filter_verdict(rollout(MATH, RewardOutcome(0.0, 0.0)), 1000, base_perplexity=9.0).bad is True


def test_no_task_or_no_verdict_is_neither_good_nor_bad():
    nothing = FilterVerdict(None, None)
    assert filter_verdict(rollout(Prompt(0, "Q"), RewardOutcome(1.0, 1.0)), 1000) == nothing
    assert filter_verdict(rollout(MATH, RewardOutcome.ungraded("down")), 1000) == nothing


def test_names_are_checked_when_the_data_is_loaded():
    check_prompts([MATH])
    with pytest.raises(EnvError, match=r"prompt 2: no task .*'maths'; known: kk, math, math_tir, synlogic, zebralogic"):
        check_prompts([MATH, Prompt(1, "Q", "7", task="maths")])
    with pytest.raises(EnvError, match="prompt 1: tasks math and math_tir: the label holds no 'gold_ans'"):
        check_prompts([Prompt(0, "Q", '{"uuid": "a"}', task="math_tir")])

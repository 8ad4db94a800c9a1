"""The rough environment of the episodes benchmark on a scripted engine: its fates, and that its check can fail."""

import dataclasses

import pytest

from benchmarks.agent_episodes import FATES, Plan, faults_of, rough_environment
from openrlhf.rollout.generator import RolloutGenerator
from openrlhf.rollout.multi_turn import MultiTurnAgentExecutor
from openrlhf.types import Prompt, Rollout, SamplingParams
from tests.fakes import FakeTokenizer, ScriptedEngine, completion

TURNS = 2


async def play(fate: str) -> tuple[Plan, Rollout]:
    """Episode 7 of ten; hanging is cut off at once."""
    plans = [Plan(number, fate, (0.0,) * (TURNS + 1)) for number in range(10)]
    executor = MultiTurnAgentExecutor(rough_environment(plans, TURNS), timeout_s=0.02)
    engine = ScriptedEngine(lambda call: completion("ok", eos=False))
    generator = RolloutGenerator(engine, executor, None, FakeTokenizer(), 200)
    prompt = Prompt(7, "You are #7#. Go: ", "7")
    result = await generator.run_group(prompt, "7", 1, SamplingParams(max_tokens=2), [None])
    return plans[7], result.group.rollouts[0]


@pytest.mark.parametrize("fate", FATES)
async def test_every_fate_is_recognised_and_no_other(fate):
    plan, rollout = await play(fate)
    assert faults_of(plan, rollout, FakeTokenizer(), TURNS) == []
    for other in FATES.keys() - {fate}:
        assert faults_of(dataclasses.replace(plan, fate=other), rollout, FakeTokenizer(), TURNS)


async def test_text_and_reward_of_another_episode_are_faults():
    _, rollout = await play("graded")
    stranger = Plan(8, "graded", (0.0,) * (TURNS + 1))
    wrong_reward, wrong_text = faults_of(stranger, rollout, FakeTokenizer(), TURNS)
    assert wrong_reward.startswith("#8#: graded, but")
    assert wrong_text == "#8#: text of episodes ['7'] in it"

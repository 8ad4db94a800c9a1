"""Prompts that name an environment run in it, as many at once as the process may run, and leave their verdict to the
reward."""

import asyncio
import json

import pytest

from openrlhf.config.env import EnvConfig
from openrlhf.env.task_rewards import TaskRewards
from openrlhf.reward.errors import RewardError
from openrlhf.rollout.environments import Environments, LimitedEngine
from openrlhf.rollout.generator import RolloutGenerator
from openrlhf.rollout.single_turn import SingleTurnExecutor
from openrlhf.types import Prompt, RewardOutcome, SamplingParams, Status, Trajectory
from tests.fakes import FakeTokenizer, ScriptedEngine, ScriptedReward, completion
from tests.unit.env.samples import tools

PLAIN = Prompt(prompt_id=1, text="ab", label="42")
THERE = Prompt(prompt_id=2, text="ab", label="42", env_func="there")


class Counting(SingleTurnExecutor):
    """Says how many of its episodes overlapped, and gives facts."""

    def __init__(self, name: str = "there") -> None:
        self.name = name
        self.most_at_once = self.active = self.closed = 0

    async def execute(self, prompt, label, *args, **kwargs) -> Trajectory:
        self.active += 1
        self.most_at_once = max(self.most_at_once, self.active)
        try:
            trajectory = await super().execute(prompt, label, *args, **kwargs)
            await asyncio.sleep(0)
        finally:
            self.active -= 1
        if self.name == "broken":
            raise KeyError("no such puzzle")
        return Trajectory(trajectory.segments, trajectory.truncated, facts={"code_runs": 3.0})

    async def close(self) -> None:
        self.closed += 1


def generator(executor: Counting, engine: ScriptedEngine, **limits: float) -> tuple[RolloutGenerator, list[str]]:
    made: list[str] = []

    def make(name: str) -> Counting:
        made.append(name)
        return executor

    reward = ScriptedReward(lambda query, prompt, response: RewardOutcome(1.0, 1.0, extra_logs={"length": 2.0}))
    environments = Environments(make, limits.pop("max_episodes", None))
    return (
        RolloutGenerator(
            engine, SingleTurnExecutor(), reward, FakeTokenizer(), 50, environments=environments, **limits
        ),
        made,
    )


async def run(generator: RolloutGenerator, prompt: Prompt, n: int = 1) -> list:
    result = await generator.run_group(prompt, "g", n, SamplingParams(max_tokens=8), [None] * n)
    return list(result.group.rollouts)


async def test_the_prompt_decides_and_facts_join_the_logs_of_the_verdict():
    executor = Counting()
    runner, made = generator(executor, ScriptedEngine(lambda call: completion("x")))
    (plain,) = await run(runner, PLAIN)
    assert (made, plain.outcome.extra_logs) == ([], {"length": 2.0})
    (there,) = await run(runner, THERE)
    await run(runner, THERE)
    assert made == ["there"]  # once for all samples
    assert there.outcome.extra_logs == {"code_runs": 3.0, "length": 2.0}
    assert there.outcome.reward == 1.0


async def test_episodes_and_generations_are_bounded_for_the_whole_process():
    executor, engine = Counting(), ScriptedEngine(lambda call: completion("x"))
    runner, _ = generator(executor, engine, max_episodes=5, max_generations=2)
    await asyncio.gather(*(run(runner, THERE, n=6) for _ in range(4)))
    assert (executor.most_at_once, engine.most_at_once) == (5, 2)
    engine.most_at_once = 0
    await run(runner, PLAIN, n=6)
    assert engine.most_at_once == 6  # single responses are no episodes


async def test_the_time_of_a_generation_begins_with_its_place(monkeypatch):
    clocks, timeout = [], asyncio.timeout
    monkeypatch.setattr(asyncio, "timeout", lambda seconds: clocks.append(seconds) or timeout(seconds))
    answers = asyncio.Queue()

    class Slow(ScriptedEngine):
        async def generate(self, *args, **kwargs):
            return await answers.get()

    engine = LimitedEngine(Slow(lambda call: None), most=1, timeout_s=60)
    first, second = (asyncio.create_task(engine.generate([1], SamplingParams(max_tokens=8))) for _ in range(2))
    await asyncio.sleep(0.01)
    assert clocks == [60]  # the second waits for its place, and no clock runs for it
    answers.put_nowait(completion("x"))
    await first
    await asyncio.sleep(0.01)
    assert clocks == [60, 60]
    answers.put_nowait(completion("x"))
    await second


async def test_an_episode_hears_that_a_generation_took_too_long():
    class Hanging(ScriptedEngine):
        async def generate(self, *args, **kwargs):
            await asyncio.sleep(60)

    runner, _ = generator(Counting(), Hanging(lambda call: None), generation_timeout=0.01)
    (rollout,) = await run(runner, THERE)
    assert (rollout.outcome.status, rollout.segments) == (Status.UNGRADED, ())
    assert "environment there raised TimeoutError" in rollout.outcome.reason


async def test_an_environment_that_raises_leaves_its_sample_without_a_verdict():
    runner, _ = generator(Counting("broken"), ScriptedEngine(lambda call: completion("x")))
    (rollout,) = await run(runner, THERE)
    assert rollout.outcome.status is Status.UNGRADED
    assert "environment there raised KeyError" in rollout.outcome.reason


async def test_an_executor_under_two_names_is_closed_once():
    executor = Counting()
    environments = Environments(lambda name: executor)
    for name in ("one", "two"):
        async with environments.episode(name) as given:
            assert given is executor
    await environments.close()
    assert executor.closed == 1


async def test_an_environment_that_cannot_be_made_fails_its_sample():
    def refuse(name: str) -> Counting:
        raise ValueError(f"no {name}")

    with pytest.raises(ValueError, match="no there"):
        async with Environments(refuse).episode("there"):
            pass


class Tasks:
    """Grades everything 0.25 and remembers what it was given."""

    def __init__(self) -> None:
        self.seen: list = []

    async def score(self, *given):
        self.seen.append(given)
        return RewardOutcome(0.25, 0.25)


async def test_a_prompt_that_names_a_task_is_graded_by_it_and_no_other_source():
    engine = ScriptedEngine(lambda call: completion("xy"))
    reward, tasks = ScriptedReward(lambda query, prompt, response: RewardOutcome(1.0, 1.0)), Tasks()
    generator = RolloutGenerator(engine, SingleTurnExecutor(), reward, FakeTokenizer(), 50, tasks=tasks)
    prompt = Prompt(prompt_id=3, text="ab", label='{"uuid": "a"}', task="math")
    graded = await run(generator, prompt) + await run(generator, PLAIN)
    assert [rollout.outcome.reward for rollout in graded] == [0.25, 1.0]
    ((seen, trajectory, response, limit),) = tasks.seen
    assert (seen, response, limit) == (prompt, "xy<eos>", 8)
    assert trajectory.segments == graded[0].segments
    assert len(reward.calls) == 1


async def test_knights_and_knaves_are_graded_by_the_name_in_their_label():
    gold = "Ann is a knight and Bob is a knave."
    answers = iter(
        [f"so </think> <answer> {gold} </answer>", "so </think> <answer> Ann is a knight, Bob is a knight </answer>"]
    )
    engine = ScriptedEngine(lambda call: completion(next(answers)))
    tasks = TaskRewards(EnvConfig(), FakeTokenizer(), tools())
    generator = RolloutGenerator(engine, SingleTurnExecutor(), None, FakeTokenizer(), 500, tasks=tasks)
    prompt = Prompt(prompt_id=4, text="who?", label=json.dumps({"uuid": "a", "gold_ans": gold}), task="kk")
    right, half = await run(generator, prompt) + await run(generator, prompt)
    assert (right.outcome.reward, right.outcome.score) == (2.0, 1.0)  # 1 for the form, 2 of 2 roles
    assert (half.outcome.reward, half.outcome.score) == (1.5, 0.5)


async def test_a_row_that_nothing_grades_is_an_error_with_its_environments_name():
    environments = Environments(lambda name: Counting())
    engine = ScriptedEngine(lambda call: completion("x"))
    alone = RolloutGenerator(engine, SingleTurnExecutor(), None, FakeTokenizer(), 50, environments=environments)
    with pytest.raises(RewardError, match="environment there returned a trajectory without an outcome, its prompt nam"):
        await run(alone, THERE)


async def test_an_outcome_of_the_episode_goes_before_the_task():
    class Judging(SingleTurnExecutor):
        async def execute(self, *args, **kwargs) -> Trajectory:
            trajectory = await super().execute(*args, **kwargs)
            return Trajectory(trajectory.segments, trajectory.truncated, RewardOutcome(0.25, 0.5))

    rewards = TaskRewards(EnvConfig(), FakeTokenizer(), tools(1.0))
    engine = ScriptedEngine(lambda call: completion("x"))
    runner = RolloutGenerator(engine, Judging(), None, FakeTokenizer(), 50, tasks=rewards)
    (rollout,) = await run(runner, Prompt(1, "ab", "42", task="math"))
    assert rollout.outcome == RewardOutcome(0.25, 0.5)

import asyncio

import pytest

from openrlhf.env.episode.tokens import EpisodeTokens
from openrlhf.reward.errors import RewardError
from openrlhf.rollout.agent import AgentExecutorBase
from openrlhf.rollout.errors import EngineDead, GenerationError
from openrlhf.rollout.generator import RolloutGenerator
from openrlhf.rollout.multi_turn import MultiTurnAgentExecutor
from openrlhf.rollout.single_turn import SingleTurnExecutor
from openrlhf.types import Prompt, RewardOutcome, RolloutStatus, SamplingParams, Status, Trajectory
from tests.agent_fakes import agent
from tests.fakes import FakeImageTokens, FakeTokenizer, ScriptedEngine, ScriptedReward, completion
from tests.pictures import picture, plain

PROMPT = Prompt(prompt_id=7, text="ab", label="42")


def generator(engine, reward=None, executor=None, **options) -> RolloutGenerator:
    reward = reward or ScriptedReward(lambda query, prompt, response: RewardOutcome(1.0, 1.0))
    return RolloutGenerator(engine, executor or SingleTurnExecutor(), reward, FakeTokenizer(), 50, **options)


async def test_a_group_holds_one_graded_rollout_per_seed():
    engine = ScriptedEngine(lambda call: completion(str(call.sampling.seed)))
    reward = ScriptedReward(lambda query, prompt, response: RewardOutcome(float(response[0]), 0.0))
    result = await generator(engine, reward).run_group(PROMPT, "g3", 3, SamplingParams(max_tokens=8), [4, 5, 6])
    assert result.group.group_id == "g3"
    assert [rollout.sample_id for rollout in result.group.rollouts] == ["g3/0", "g3/1", "g3/2"]
    assert [rollout.outcome.reward for rollout in result.group.rollouts] == [4.0, 5.0, 6.0]
    assert all(rollout.prompt is PROMPT for rollout in result.group.rollouts)
    assert all(rollout.status is RolloutStatus.COMPLETE for rollout in result.group.rollouts)


async def test_samples_of_a_prompt_run_at_once():
    engine = ScriptedEngine(lambda call: completion("x"))
    await generator(engine).run_group(PROMPT, "g", 5, SamplingParams(max_tokens=8), [None] * 5)
    assert engine.most_at_once == 5


async def test_the_reward_sees_query_prompt_and_response_with_special_tokens():
    reward = ScriptedReward(lambda query, prompt, response: RewardOutcome(1.0, 1.0))
    engine = ScriptedEngine(lambda call: completion("xy"))
    result = await generator(engine, reward).run_group(PROMPT, "g", 1, SamplingParams(max_tokens=8), [None])
    assert reward.calls == [("abxy<eos>", PROMPT, "xy<eos>")]
    assert result.group.rollouts[0].response_text == "xy<eos>"


async def test_in_texts_an_image_is_one_placeholder():
    # So that `query[len(prompt):]` is the response, as reward functions write it.
    prompt = Prompt(7, "a#b", images=(picture(),))
    reward = ScriptedReward(lambda query, prompt, response: RewardOutcome(1.0, 1.0))
    engine = ScriptedEngine(lambda call: completion("xy"), FakeImageTokens())
    result = await generator(engine, reward).run_group(prompt, "g", 1, SamplingParams(max_tokens=8), [None])
    assert reward.calls == [("a#bxy<eos>", prompt, "xy<eos>")]
    (rollout,) = result.group.rollouts
    assert len(rollout.segments[0].token_ids) == 10  # a ( # # # ) b x y <eos>


async def test_the_response_text_shows_the_environments_images_too():
    steps = iter([False, True])
    answer = {"environment_feedback": "?#!", "environment_images": [plain(width=20)]}
    executor = MultiTurnAgentExecutor(agent(lambda self, states: {"rewards": 1.0, "done": next(steps), **answer}))
    engine = ScriptedEngine(lambda call: completion("x"), FakeImageTokens())
    prompt = Prompt(7, "a#b", images=(picture(),))
    result = await generator(engine, executor=executor).run_group(prompt, "g", 1, SamplingParams(max_tokens=8), [None])
    assert result.group.rollouts[0].response_text == "x<eos>?#!x<eos>"


class Forgetful(AgentExecutorBase):
    """Expands the ids, as docs/vision.md says, and forgets the images in the record of samples with seed 1."""

    async def execute(self, prompt, label, sampling_params, max_length, hf_tokenizer, llm_engine, images=None):
        ids = hf_tokenizer(prompt, add_special_tokens=False)["input_ids"]
        tokens = EpisodeTokens(llm_engine.image_tokens.expand(ids, images))
        tokens.act(await llm_engine.generate(tokens.ids, sampling_params, images))
        segment = tokens.segment() if sampling_params.seed == 1 else tokens.segment(images)
        return Trajectory((segment,), False, RewardOutcome(1.0, 1.0))


async def test_a_segment_without_the_images_of_its_tokens_is_left_without_a_verdict():
    # The trainer would find it in the micro-batch, and end the run.
    running = generator(
        ScriptedEngine(lambda call: completion("x"), FakeImageTokens()), executor=Forgetful(), tolerate_failures=True
    )
    prompt = Prompt(7, "a#b", images=(picture(),))
    result = await running.run_group(prompt, "g", 2, SamplingParams(max_tokens=8), [0, 1])
    kept, lost = result.group.rollouts
    assert (kept.outcome.status, len(kept.segments)) == (Status.GRADED, 1)
    assert (lost.outcome.status, lost.segments) == (Status.UNGRADED, ())
    assert "segment 1 whose tokens and images differ: more image tokens than those of the images" in lost.outcome.reason
    assert sum(running.failures.counts().values()) == 1


async def test_a_placeholder_in_the_output_of_a_tool_leaves_its_sample_without_a_verdict():
    class Tool(AgentExecutorBase):
        async def execute(self, prompt, label, sampling_params, max_length, hf_tokenizer, llm_engine, images=None):
            tokens = EpisodeTokens(hf_tokenizer(prompt, add_special_tokens=False)["input_ids"])
            tokens.act(await llm_engine.generate(tokens.ids, sampling_params))
            tokens.observe(hf_tokenizer("output: #", add_special_tokens=False)["input_ids"])
            return Trajectory((tokens.segment(),), True)

    running = generator(
        ScriptedEngine(lambda call: completion("x"), FakeImageTokens()), executor=Tool(), tolerate_failures=True
    )
    result = await running.run_group(PROMPT, "g", 1, SamplingParams(max_tokens=8), [None])
    (rollout,) = result.group.rollouts
    assert (rollout.outcome.status, rollout.segments) == (Status.UNGRADED, ())
    assert "must have no placeholder" in rollout.outcome.reason


async def test_every_sample_has_its_own_sampling_params():
    # Case c1's kind: one sample changes its parameters in place, nobody else notices, nor does the caller.
    class Changing(SingleTurnExecutor):
        async def execute(self, prompt, label, sampling_params, *args, **kwargs):
            if sampling_params.seed == 0:
                sampling_params.max_tokens = 1
                sampling_params.logit_bias[3] = -100.0
            await asyncio.sleep(0)
            return await super().execute(prompt, label, sampling_params, *args, **kwargs)

    engine = ScriptedEngine(lambda call: completion("x"))
    sampling = SamplingParams(max_tokens=8, logit_bias={})
    await generator(engine, executor=Changing()).run_group(PROMPT, "g", 3, sampling, [0, 1, 2])
    asked = {call.sampling.seed: (call.sampling.max_tokens, call.sampling.logit_bias) for call in engine.calls}
    assert asked == {0: (1, {3: -100.0}), 1: (8, {}), 2: (8, {})}
    assert (sampling.max_tokens, sampling.logit_bias, sampling.seed) == (8, {}, None)


@pytest.mark.parametrize("error", [EngineDead("vLLM engine 0 is dead"), GenerationError("no logprobs")])
async def test_engine_errors_end_the_group_even_where_failures_are_tolerated(error):
    engine = ScriptedEngine(lambda call: error if call.sampling.seed == 1 else completion("x"))
    with pytest.raises(type(error), match=str(error)):
        await generator(engine, tolerate_failures=True).run_group(
            PROMPT, "g", 3, SamplingParams(max_tokens=8), [0, 1, 2]
        )


async def test_reward_errors_end_the_group_and_cancel_its_other_samples():
    finished = []

    class Slow(SingleTurnExecutor):
        async def execute(self, prompt, label, sampling_params, *args, **kwargs):
            if sampling_params.seed == 1:
                await asyncio.sleep(60)
                finished.append(sampling_params.seed)
            return await super().execute(prompt, label, sampling_params, *args, **kwargs)

    reward = ScriptedReward(lambda query, prompt, response: RewardError("reward.py: reward_func raised"))
    engine = ScriptedEngine(lambda call: completion("x"))
    started = asyncio.get_running_loop().time()
    with pytest.raises(RewardError, match="reward_func raised"):
        await generator(engine, reward, Slow(), tolerate_failures=True).run_group(
            PROMPT, "g", 2, SamplingParams(max_tokens=8), [0, 1]
        )
    assert asyncio.get_running_loop().time() - started < 10
    assert finished == []


class Failing(SingleTurnExecutor):
    async def execute(self, prompt, label, sampling_params, *args, **kwargs) -> Trajectory:
        if sampling_params.seed == 1:
            raise KeyError("state")
        return await super().execute(prompt, label, sampling_params, *args, **kwargs)


async def test_a_failing_executor_ends_the_run_unless_tolerated():
    engine = ScriptedEngine(lambda call: completion("x"))
    with pytest.raises(KeyError):
        await generator(engine, executor=Failing()).run_group(PROMPT, "g", 2, SamplingParams(max_tokens=8), [0, 1])


async def test_a_tolerated_failure_is_ungraded_never_zero():
    engine = ScriptedEngine(lambda call: completion("x"))
    reward = ScriptedReward(lambda query, prompt, response: RewardOutcome(1.0, 1.0))
    result = await generator(engine, reward, Failing(), tolerate_failures=True).run_group(
        PROMPT, "g", 2, SamplingParams(max_tokens=8), [0, 1]
    )
    good, failed = result.group.rollouts
    assert good.outcome.status is Status.GRADED
    assert failed.outcome.status is Status.UNGRADED
    assert failed.outcome.reason.startswith("Failing raised KeyError: 'state' at ")
    assert failed.segments == ()
    assert failed.status is RolloutStatus.ABORTED
    assert len(reward.calls) == 1


async def test_an_outcome_of_the_executor_is_kept():
    class Judging(SingleTurnExecutor):
        async def execute(self, *args, **kwargs) -> Trajectory:
            trajectory = await super().execute(*args, **kwargs)
            return Trajectory(trajectory.segments, trajectory.truncated, RewardOutcome(0.25, 0.5))

    reward = ScriptedReward(lambda query, prompt, response: RewardOutcome(1.0, 1.0))
    engine = ScriptedEngine(lambda call: completion("x"))
    result = await generator(engine, reward, Judging()).run_group(PROMPT, "g", 1, SamplingParams(max_tokens=8), [0])
    assert result.group.rollouts[0].outcome == RewardOutcome(0.25, 0.5)
    assert reward.calls == []


async def test_without_a_reward_source_the_executor_must_judge():
    engine = ScriptedEngine(lambda call: completion("x"))
    alone = RolloutGenerator(engine, SingleTurnExecutor(), None, FakeTokenizer(), 50, tolerate_failures=True)
    with pytest.raises(RewardError, match="SingleTurnExecutor returned a trajectory without an outcome"):
        await alone.run_group(PROMPT, "g", 1, SamplingParams(max_tokens=8), [0])


async def test_an_executor_must_return_a_trajectory():
    class Wrong(SingleTurnExecutor):
        async def execute(self, *args, **kwargs):
            return {"reward": 1.0}

    engine = ScriptedEngine(lambda call: completion("x"))
    runs = generator(engine, executor=Wrong(), tolerate_failures=True)
    (rollout,) = (await runs.run_group(PROMPT, "g", 1, SamplingParams(max_tokens=8), [0])).group.rollouts
    assert rollout.outcome.reason == "Wrong.execute returned a dict; expected a Trajectory"
    assert list(runs.failures.counts().values()) == [1]


async def test_a_seed_per_sample_is_required():
    with pytest.raises(ValueError, match="group g: 2 samples but 1 seeds"):
        await generator(ScriptedEngine(lambda call: completion("x"))).run_group(PROMPT, "g", 2, SamplingParams(), [0])

"""Whole samples through `run_agent`."""

import asyncio
import logging
from pathlib import Path

import openai
import pytest

from openrlhf.rollout.errors import AgentError, AgentReturnError, AgentTimeout, EngineDead
from openrlhf.rollout.openai_server.executor import OpenAIServerAgentExecutor
from openrlhf.rollout.user_agent import load_agent
from openrlhf.types import SamplingParams, Status
from tests.agent_fakes import ChatTokenizer, play, quick_client, within
from tests.fakes import ScriptedEngine, completion

EXAMPLE = Path(__file__).resolve().parents[4] / "examples" / "python" / "agent_func_openai_server_executor.py"


class Asking(OpenAIServerAgentExecutor):
    """Asks once, returns `result`."""

    result: object = None

    async def run_agent(self, *, prompt, label, base_url, session_id, images=None, **kwargs):
        async with quick_client(base_url) as client:
            answer = await client.chat.completions.create(
                model="policy", messages=[{"role": "user", "content": prompt}]
            )
        text = answer.choices[0].message.content
        return {"reward": float(text == label), "extra_logs": {"n": 1}} if self.result is None else self.result


async def run(executor, engine, **options):
    try:
        return await within(30, play(executor, engine, tokenizer=ChatTokenizer(), **options))
    finally:
        await executor.close()


async def test_a_sample_is_what_was_asked_in_its_session():
    engine = ScriptedEngine(lambda call: completion("L"))
    trajectory = await run(Asking(), engine, prompt="ab", label="L")
    (segment,) = trajectory.segments
    assert ChatTokenizer().decode(segment.token_ids.tolist()) == "<user>ab<eos>\n<assistant>L<eos>"
    assert segment.num_actions == 2
    assert (trajectory.outcome.reward, trajectory.outcome.score) == (1.0, 1.0)
    assert trajectory.outcome.extra_logs == {"n": 1.0}
    assert not trajectory.truncated


async def test_samples_run_at_once_and_keep_apart():
    engine, executor = ScriptedEngine(lambda call: completion(decoded(call)[6])), Asking()
    episodes = [play(executor, engine, prompt=f"{i} ?", label=str(i % 5), tokenizer=ChatTokenizer()) for i in range(10)]
    trajectories = await within(30, asyncio.gather(*episodes))
    await executor.close()
    # Sample i's answer is the first character of its own prompt, i: right where the label i % 5 is i, so below 5.
    assert [trajectory.outcome.reward for trajectory in trajectories] == [1.0] * 5 + [0.0] * 5
    assert all(len(trajectory.segments) == 1 for trajectory in trajectories)


def decoded(call) -> str:
    return ChatTokenizer().decode(call.prompt_token_ids)


async def test_training_and_evaluation_parameters_do_not_meet():
    engine, executor = ScriptedEngine(lambda call: completion("x")), Asking()
    params = [SamplingParams(max_tokens=4, temperature=1.0, seed=5), SamplingParams(max_tokens=7, temperature=0.6)]
    await asyncio.gather(*(play(executor, engine, sampling=p, tokenizer=ChatTokenizer()) for p in params))
    await executor.close()
    asked = {(call.sampling.max_tokens, call.sampling.temperature, call.sampling.seed) for call in engine.calls}
    assert asked == {(4, 1.0, 5), (7, 0.6, None)}


async def test_the_last_answers_end_decides_truncation():
    engine = ScriptedEngine(lambda call: completion("L", eos=False, finish_reason="length"))
    assert (await run(Asking(), engine)).truncated


class Talking(OpenAIServerAgentExecutor):
    """Asks again and again, as an agent does that keeps a history."""

    catches = False

    async def run_agent(self, *, prompt, label, base_url, session_id, images=None, **kwargs):
        messages = [{"role": "user", "content": prompt}]
        async with quick_client(base_url) as client:
            for _ in range(9):
                try:
                    answer = await client.chat.completions.create(model="policy", messages=messages, **self.options())
                except openai.BadRequestError:
                    if self.catches:
                        return {"reward": 0.5}
                    raise
                text = answer.choices[0].message.content
                messages += [{"role": "assistant", "content": text}, {"role": "user", "content": "go on"}]
        raise KeyError("no end")

    def options(self):
        return {}


async def test_a_conversation_that_outgrows_the_context_is_a_failure_of_the_policy():
    engine = ScriptedEngine(lambda call: completion("more"))
    trajectory = await run(Talking(), engine, max_length=100)
    outcome = trajectory.outcome
    assert (outcome.status, outcome.reward, trajectory.truncated) == (Status.FAILED, 0.0, True)
    assert outcome.reason.startswith("Talking.run_agent was cut short: the conversation has 1")
    assert outcome.reason.endswith(" tokens, the context 100")
    (segment,) = trajectory.segments
    assert len(segment.turns) == len(engine.calls) > 1
    catching = Talking()
    catching.catches = True
    trajectory = await run(catching, engine, max_length=100)
    assert (trajectory.outcome.reward, trajectory.truncated) == (0.5, True)


async def test_what_an_agent_raises_for_another_reason_stays_without_a_verdict():
    class Answered(Talking):
        def options(self):
            return {"n": 2} if self.refuse else {}

    for refuse, raised in ((True, openai.BadRequestError), (False, KeyError)):
        executor = Answered()
        executor.refuse = refuse
        with pytest.raises(raised):
            await run(executor, ScriptedEngine(lambda call: completion("m")), max_length=2000)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"temperature": 0}, "temperature 0 instead of 0.8"),
        ({"top_p": 0.5}, "top_p 0.5 instead of 1:"),
        ({"temperature": 0.8, "top_p": 1}, None),
        ({}, None),
    ],
)
async def test_another_distribution_than_the_trainers_is_said_once(options, said, caplog):
    class Own(Talking):
        def options(self):
            return options

    with caplog.at_level(logging.WARNING):
        sampling = SamplingParams(temperature=0.8, max_tokens=8)
        await run(Own(), ScriptedEngine(lambda call: completion("more")), max_length=90, sampling=sampling)
    found = [record.message for record in caplog.records if "Own asked for" in record.message]
    assert len(found) == (said is not None)
    assert said is None or said in found[0]


async def test_one_seed_of_the_agents_is_another_one_in_every_sample():
    class Seeded(Talking):
        def options(self):
            return {"seed": 42}

    for own in (None, 7):
        engine, executor = ScriptedEngine(lambda call: completion("more")), Seeded()
        params = [SamplingParams(max_tokens=8, seed=None if own is None else own + number) for number in range(3)]
        await asyncio.gather(
            *(play(executor, engine, sampling=p, max_length=60, tokenizer=ChatTokenizer()) for p in params)
        )
        await executor.close()
        assert len({call.sampling.seed for call in engine.calls}) == len(engine.calls) > 3
        assert None not in {call.sampling.seed for call in engine.calls}


async def test_a_model_without_a_template_that_can_be_used_ends_the_run():
    class Plain(ChatTokenizer):
        chat_template = None

    with pytest.raises(AgentError, match="Asking: the model has no chat template"):
        await within(30, play(Asking(), ScriptedEngine(lambda call: completion("L")), tokenizer=Plain()))


@pytest.mark.parametrize("result", [None, {}, {"score": 1}, {"reward": "1"}, {"reward": 1, "scores": [1, 2]}])
async def test_a_wrong_form_is_named(result):
    executor = Asking()
    executor.result = result if result is not None else "nothing"
    with pytest.raises(AgentReturnError, match=r"Asking\.run_agent returned "):
        await run(executor, ScriptedEngine(lambda call: completion("L")))


async def test_no_verdict_is_ungraded():
    executor = Asking()
    executor.result = {"reward": float("nan")}
    trajectory = await run(executor, ScriptedEngine(lambda call: completion("L")))
    assert trajectory.outcome.status is Status.UNGRADED


async def test_an_aborted_generation_is_ungraded():
    trajectory = await run(Asking(), ScriptedEngine(lambda call: completion("L", finish_reason="aborted")))
    assert trajectory.outcome.status is Status.UNGRADED


async def test_what_kills_the_engine_is_not_the_agents():
    engine = ScriptedEngine(lambda call: EngineDead("vLLM engine 0 is dead"))
    with pytest.raises(EngineDead):
        await run(Asking(), engine)


@pytest.mark.parametrize(("prompt", "warnings"), [("<user>ab<eos>\n<assistant>", 1), ("ab", 0)])
async def test_a_prompt_with_the_template_in_it_already_is_said_once(prompt, warnings, caplog):
    executor, engine = Asking(), ScriptedEngine(lambda call: completion("L"))
    with caplog.at_level(logging.WARNING):
        await asyncio.gather(*(play(executor, engine, prompt=prompt, tokenizer=ChatTokenizer()) for _ in range(2)))
    await executor.close()
    assert sum("leave --data.apply_chat_template out" in record.message for record in caplog.records) == warnings


async def test_an_agent_that_raises_or_hangs_fails_alone():
    class Failing(Asking):
        async def run_agent(self, *, label, **kwargs):
            if label == "raises":
                raise KeyError("no plan")
            if label == "hangs":
                await asyncio.sleep(60)
            return await super().run_agent(label=label, **kwargs)

    executor, engine = Failing(timeout_s=1.0), ScriptedEngine(lambda call: completion("L"))
    play_all = (play(executor, engine, label=label, tokenizer=ChatTokenizer()) for label in ("raises", "hangs", "L"))
    raised, hung, good = await within(30, asyncio.gather(*play_all, return_exceptions=True))
    await executor.close()
    assert isinstance(raised, KeyError)
    assert isinstance(hung, AgentTimeout)
    assert good.outcome.reward == 1.0


async def test_the_example_calls_its_tool_twice_and_answers():
    def script(call):
        text = decoded(call)
        if "<tool>7<eos>" in text:
            return completion("It is 7.")
        expression = "1 + 6" if "<tool>6<eos>" in text else "2 * 3"
        return completion(
            f'<tool_call>{{"name": "calculate", "arguments": {{"expression": "{expression}"}}}}</tool_call>'
        )

    engine = ScriptedEngine(script)
    trajectory = await run(load_agent(EXAMPLE), engine, prompt="1 + 2 * 3", label="7", max_tokens=200, max_length=900)
    assert len(engine.calls) == 3
    assert trajectory.outcome.reward == 1.0
    assert trajectory.outcome.extra_logs == {"tool_calls": 2.0}
    (segment,) = trajectory.segments
    assert len(segment.turns) == 3
    assert engine.calls[2].prompt_token_ids == segment.token_ids.tolist()[: segment.turns[2].start]


@pytest.mark.parametrize(("expression", "value"), [("(1 + 2) / 4", "0.75"), ("2**9", "error: "), ("f(1)", "error: ")])
def test_the_examples_calculator_executes_nothing(expression, value):
    module = __import__("sys").modules[type(load_agent(EXAMPLE)).__module__]
    assert module.calculate(expression).startswith(value)

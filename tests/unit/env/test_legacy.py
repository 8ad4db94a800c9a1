"""Functions in the older form."""

import numpy as np
import pytest

from openrlhf.config.env import EnvConfig
from openrlhf.env import env_config
from openrlhf.env.errors import EnvError
from openrlhf.env.legacy import STOPS, LegacyExecutor, Output, Request, is_generate, task_filter, task_reward
from openrlhf.types import SamplingParams
from tests.fakes import FakeTokenizer, ScriptedEngine, completion
from tests.unit.env.samples import filter_sample, task_sample, tools


async def old_reward(prompt, response, label, finish_reason, pad_token, code_exection_nums, max_tokens, stop_tokens):
    return {
        "rewards": [float(label["gold_ans"] in response)],
        "seen": [finish_reason, pad_token, code_exection_nums, max_tokens, stop_tokens],
    }


async def test_a_reward_of_the_older_form_gets_its_arguments_by_name():
    reward = task_reward("old", old_reward)
    answer = await reward(task_sample("it is 7", facts={"code_runs": 3}), tools())
    assert answer["rewards"] == [1.0]
    assert answer["seen"][:4] == ["stop", "<eos>", 3, 1000]
    assert "<eos>" in answer["seen"][4]


async def test_a_plain_function_will_do():
    reward = task_reward("old", lambda response, label, finish_reason: {"rewards": [0.5]})
    assert await reward(task_sample("x"), tools()) == {"rewards": [0.5]}


async def test_two_parameters_by_the_older_names_are_the_older_form():
    async def score(response, label):
        return {"rewards": [float(label["gold_ans"] in response)]}

    assert await task_reward("old", score)(task_sample("it is 7"), tools()) == {"rewards": [1.0]}

    async def todays(sample, kit):  # under names of its own
        return {"rewards": float(sample.text == "it is 7" and kit.terms.tool_bonus == 0)}

    assert task_reward("new", todays) is todays


async def test_the_older_form_hears_of_the_special_tokens_that_end_a_response():
    sample = task_sample("7<end_of_turn>", special_tokens=("<end_of_turn>", "<pad>"))
    answer = await task_reward("old", lambda response, stop_tokens: {"seen": (response, stop_tokens)})(sample, tools())
    assert answer["seen"] == ("7<end_of_turn>", [*STOPS, "<eos>", "<end_of_turn>"])


def test_a_reward_of_no_known_form_is_refused():
    with pytest.raises(EnvError, match=r"\(sample, tools\)"):
        task_reward("odd", lambda a, b, c: {})


def test_filters_of_both_forms():
    seen = []

    def old(exp, sample, args):
        seen.append((exp, sample.score, args))
        return 1

    assert task_filter("x_exp_filter_fn", old)(filter_sample(0.5)) is True
    assert task_filter("x_exp_filter_fn", old)(filter_sample(0.5, base_perplexity=6.0)) is True
    assert seen == [(None, 0.5, None), ({"base_ppl": 6.0}, 0.5, None)]
    assert task_filter("x", lambda sample: sample.score > 0)(filter_sample(0.5)) is True
    with pytest.raises(EnvError, match="takes 2 parameters"):
        task_filter("x", lambda a, b: 0)


async def generate(url, headers, idx, request, tokenizer, use_reward=True):
    """Two turns, `ab` each, with `>` between them; goes on through its request."""
    done = request.state.setdefault("done", {"ids": [], "mask": [], "log_probs": []})
    answer = await url([*request.prompt_token_ids, *done["ids"]], max_tokens=2)
    done["ids"] += answer.token_ids.tolist()
    done["mask"] += [1] * len(answer.token_ids)
    done["log_probs"] += answer.logprobs.tolist()
    if len(done["ids"]) > 4:
        return idx, Output(done["ids"], done["mask"], done["log_probs"], "stop", {"code_runs": 1})
    done["ids"].append(ord(">"))
    done["mask"].append(0)
    done["log_probs"].append(0.0)
    return request


async def test_a_generate_function_becomes_a_trajectory():
    assert is_generate(generate)
    engine = ScriptedEngine(lambda call: completion("ab", eos=False, version=len(engine.calls)))
    executor = LegacyExecutor("old", generate, EnvConfig())
    trajectory = await executor.execute("Q", "{}", SamplingParams(max_tokens=8), 20, FakeTokenizer(), engine)
    (segment,) = trajectory.segments
    assert "".join(map(chr, segment.token_ids)) == "Qab>ab"
    assert segment.action_mask.tolist() == [False, True, True, False, True, True]
    assert segment.policy_versions.tolist() == [-1, 1, 1, -1, 2, 2]
    np.testing.assert_allclose(segment.logprobs, [0, -0.5, -1, 0, -0.5, -1])
    assert (trajectory.outcome, trajectory.truncated, trajectory.facts) == (None, False, {"code_runs": 1})
    assert [len(call.prompt_token_ids) for call in engine.calls] == [1, 4]


async def test_a_generate_function_names_one_stop_as_a_text():
    async def once(url, headers, idx, request, tokenizer, use_reward=True):
        answer = await url(request.prompt_token_ids, stop="```")
        return idx, Output(answer.token_ids, [1] * len(answer.token_ids), answer.logprobs, "stop")

    engine = ScriptedEngine(lambda call: completion("ab"))
    executor = LegacyExecutor("old", once, EnvConfig())
    await executor.execute("Q", "{}", SamplingParams(max_tokens=8), 20, FakeTokenizer(), engine)
    assert engine.calls[0].sampling.stop == ("```",)


async def test_tokens_of_a_tool_beyond_the_context_are_cut_off():
    async def talkative(url, headers, idx, request, tokenizer, use_reward=True):
        answer = await url(request.prompt_token_ids)
        ids = answer.token_ids.tolist()
        return idx, Output([*ids, *b"tool"], [1] * len(ids) + [0] * 4, [*answer.logprobs, 0, 0, 0, 0], "stop")

    engine = ScriptedEngine(lambda call: completion("ab"))
    executor = LegacyExecutor("talkative", talkative, EnvConfig())
    trajectory = await executor.execute("Q", "{}", SamplingParams(max_tokens=4), 5, FakeTokenizer(), engine)
    assert len(trajectory.segments[0].token_ids) == 5
    assert trajectory.truncated


async def test_tokens_that_no_engine_is_known_to_have_sampled_are_no_trajectory():
    async def elsewhere(url, headers, idx, request, tokenizer, use_reward=True):
        return 0, Output([7, 8], [1, 1], [-0.5, -0.5], "stop")

    executor, engine = LegacyExecutor("elsewhere", elsewhere, EnvConfig()), ScriptedEngine(lambda call: completion("a"))
    with pytest.raises(ValueError, match="did not sample with the engine it was given"):
        await executor.execute("Q", "{}", SamplingParams(max_tokens=8), 20, FakeTokenizer(), engine)


def test_the_registry_takes_a_generate_function(monkeypatch):
    monkeypatch.setitem(env_config.ENV_GENERATE_CONFIG, "old", generate)
    assert isinstance(env_config.environments_of(EnvConfig())("old"), LegacyExecutor)


async def test_a_generation_out_of_time_begins_the_sample_anew():
    answers = [completion("ab", eos=False), TimeoutError(), completion("cd", eos=False), completion("ef", eos=False)]
    engine = ScriptedEngine(lambda call: answers.pop(0))
    executor = LegacyExecutor("old", generate, EnvConfig())
    trajectory = await executor.execute("Q", "{}", SamplingParams(max_tokens=8), 20, FakeTokenizer(), engine)
    assert "".join(map(chr, trajectory.segments[0].token_ids)) == "Qcd>ef"


async def test_none_is_tried_again_and_not_for_ever():
    async def never(url, headers, idx, request, tokenizer, use_reward=True):
        calls.append(request)

    calls: list[Request] = []
    executor = LegacyExecutor("old", never, EnvConfig(max_retries=2))
    engine = ScriptedEngine(lambda call: completion("a"))
    with pytest.raises(RuntimeError, match="environment old: no output after 3 calls"):
        await executor.execute("Q", "", SamplingParams(max_tokens=8), 20, FakeTokenizer(), engine)
    assert len({id(request) for request in calls}) == 3  # a fresh one each time

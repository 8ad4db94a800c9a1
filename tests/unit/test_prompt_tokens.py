"""Prompts begin as the tokenizer begins every text, once (TRL 3520)."""

import pytest
from tokenizers.processors import TemplateProcessing

from openrlhf.data.budget import cut_prompts
from openrlhf.env.math_tir.episode import TirEpisode
from openrlhf.models.tokenizer import load_tokenizer
from openrlhf.prompt_tokens import num_added, prompt_ids
from openrlhf.rollout.episode import Episode
from openrlhf.rollout.generator import RolloutGenerator
from openrlhf.rollout.single_turn import SingleTurnExecutor
from openrlhf.types import Prompt, RewardOutcome, SamplingParams
from tests.fakes import FakeTokenizer, ScriptedEngine, ScriptedReward, completion
from tests.models import BOS, BOS_ID, EOS, EOS_ID, make_tiny_tokenizer

A, B = 13, 14  # ids of "a" and "b": 3 + their places after ten digits


def tokenizer_with(template: str):
    made = make_tiny_tokenizer()
    made.backend_tokenizer.post_processor = TemplateProcessing(
        single=template, special_tokens=[(BOS, BOS_ID), (EOS, EOS_ID)]
    )
    return made


@pytest.mark.parametrize(
    ("template", "text", "expected"),
    [
        (f"{BOS} $A", "ab", [BOS_ID, A, B]),
        (f"{BOS} $A", f"{BOS}ab", [BOS_ID, A, B]),  # a chat template has written it
        (f"{BOS} $A {EOS}", "ab", [BOS_ID, A, B]),  # an end token would close the prompt
        ("$A", "ab", [A, B]),
        (f"$A {EOS}", "ab", [A, B]),
        (f"{BOS} $A", "", []),
    ],
)
def test_the_token_before_every_text(template, text, expected):
    assert prompt_ids(tokenizer_with(template), text) == expected


@pytest.mark.parametrize(("rendered", "expected"), [(False, [BOS_ID, A, B]), (True, [A, B])])
def test_a_chat_template_writes_what_the_model_is_to_see(tmp_path, rendered, expected):
    tokenizer_with(f"{BOS} $A").save_pretrained(tmp_path)
    assert prompt_ids(load_tokenizer(str(tmp_path), rendered=rendered), "ab") == expected


def test_a_tokenizer_that_knows_no_such_token():
    tokenizer = tokenizer_with("$A")
    tokenizer.bos_token = None
    assert prompt_ids(tokenizer, "ab") == [A, B]


class Opening(FakeTokenizer):
    """FakeTokenizer, whose first token is now one that begins texts."""

    bos_token, bos_token_id = "<bos>", 1


async def test_every_executor_gives_it_to_the_engine():
    engine = ScriptedEngine(lambda call: completion("x"))
    trajectory = await SingleTurnExecutor().execute("ab", "", SamplingParams(max_tokens=4), 20, Opening(), engine)
    assert trajectory.segments[0].token_ids.tolist() == [1, 97, 98, 120, 0]
    assert trajectory.segments[0].action_mask.tolist() == [False, False, False, True, True]
    episode = Episode("ab", "", SamplingParams(max_tokens=4), [], 20, Opening(), engine)
    assert episode.tokens.ids == [1, 97, 98]
    assert episode.text == "ab"


async def test_a_cut_prompt_keeps_it_everywhere():
    # 1 + 10 tokens, and 10 - 4 = 6 fit: the first, and "fghij". Texts do not show it, as with a whole prompt.
    prompt, kept, sampling = "abcdefghij", [1, *map(ord, "fghij")], SamplingParams(max_tokens=4)
    engine = ScriptedEngine(lambda call: completion("x"))
    await SingleTurnExecutor().execute(prompt, "", sampling, 10, Opening(), engine)
    assert engine.calls[0].prompt_token_ids == kept
    episode = Episode(prompt, "", sampling, [], 10, Opening(), engine)
    assert (episode.tokens.ids, episode.text) == (kept, "fghij")
    assert TirEpisode(prompt, sampling, 10, Opening()).tokens.ids == kept
    reward = ScriptedReward(lambda query, prompt, response: RewardOutcome(1.0, 1.0))
    generator = RolloutGenerator(engine, SingleTurnExecutor(), reward, Opening(), 10)
    await generator.run_group(Prompt(0, prompt), "g", 1, sampling, [None])
    assert reward.calls[0][0] == "fghijx<eos>"


def test_it_counts_towards_the_budget_of_a_prompt():
    prompts = [Prompt(0, "a" * 20), Prompt(1, "a" * 19)]
    assert cut_prompts(prompts, tokenizer_with(f"{BOS} $A"), 20) == {0: 21}
    assert cut_prompts(prompts, tokenizer_with("$A"), 20) == {}


@pytest.mark.parametrize(("text", "ids", "added"), [("ab", [1, 97], 1), ("<bos>ab", [1, 97], 0), ("ab", [97, 98], 0)])
def test_rewards_do_not_see_what_the_text_of_the_prompt_has_not(text, ids, added):
    assert num_added(Opening(), text, ids) == added
    assert num_added(FakeTokenizer(), text, ids) == 0


async def test_the_query_of_a_reward_is_prompt_and_response():
    reward = ScriptedReward(lambda query, prompt, response: RewardOutcome(1.0, 1.0))
    engine = ScriptedEngine(lambda call: completion("xy"))
    generator = RolloutGenerator(engine, SingleTurnExecutor(), reward, Opening(), 50)
    prompts = [Prompt(0, "ab"), Prompt(1, "#ab")]
    for prompt in prompts:
        await generator.run_group(prompt, "g", 1, SamplingParams(max_tokens=8), [None])
    assert reward.calls == [(f"{prompt.text}xy<eos>", prompt, "xy<eos>") for prompt in prompts]
    assert [call.prompt_token_ids[0] for call in engine.calls] == [1, 1]

"""What agents read of an episode: the text of its tokens together, not of each piece alone."""

import numpy as np
import pytest
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from openrlhf.rollout.multi_turn import MultiTurnAgentExecutor
from openrlhf.rollout.running_text import RunningText
from openrlhf.types import Completion
from tests.agent_fakes import agent, play
from tests.fakes import ScriptedEngine

WORDS = ("<unk>", "</s>", "▁The", "▁answer", "▁is", "▁42", "▁Next", "▁good")


def sentencepiece_like() -> PreTrainedTokenizerFast:
    """Its decoder drops the space before the first word of what it is given, as Llama 2's and Mistral's does."""
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first")
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>", eos_token="</s>")


def sampled(*words: str) -> Completion:
    ids = np.array([WORDS.index(word) for word in words])
    return Completion(ids, np.full(len(ids), -1, np.float32), "stop", np.zeros(len(ids), np.int32))


@pytest.mark.parametrize("feedback", [" Next", "Next", ""])
async def test_no_space_is_lost_where_a_decoder_drops_the_first_one(feedback):
    seen, tokenizer = [], sentencepiece_like()

    def step(self, states):
        seen.append((states["observation_text"], states["action_text"]))
        return {"rewards": 1.0, "done": self.steps == 3, "environment_feedback": feedback}

    script = iter([sampled("▁is", "▁42"), sampled("▁good"), sampled("▁good", "</s>")])
    engine = ScriptedEngine(lambda call: next(script))
    trajectory = await play(MultiTurnAgentExecutor(agent(step)), engine, prompt="The answer", tokenizer=tokenizer)
    shown = " Next" if feedback else ""  # the tokenizer puts a space before every text
    assert seen == [
        ("The answer", " is 42"),
        (f"The answer is 42{shown}", " good"),
        (f"The answer is 42{shown} good{shown}", " good</s>"),
    ]
    assert "".join(seen[-1]) == tokenizer.decode(trajectory.segments[0].token_ids)


class Bytes:
    """One token per byte, as byte-level tokenizers have them for rare characters; counts what it decodes."""

    def __init__(self) -> None:
        self.decoded = 0

    def __call__(self, ids: list[int]) -> str:
        self.decoded += len(ids)
        return bytes(ids).decode("utf-8", errors="replace")


def test_a_character_sampled_in_two_actions_becomes_whole():
    first, second = "né".encode()[:2], "né!".encode()[2:]
    text = RunningText(Bytes(), list(b"ab"), "ab")
    assert text.act(list(first)) == "n\ufffd"
    assert text.whole == "abn\ufffd"
    assert text.act(list(second)) == "é!"
    assert text.whole == "abné!"


def test_a_character_that_is_never_finished_stays_broken_and_harms_nothing_after_it():
    text = RunningText(Bytes(), list(b"ab"), "ab")
    assert text.act(list("é".encode()[:1])) == "\ufffd"
    text.observe(list("é|".encode()))
    assert text.whole == "ab\ufffdé|"
    assert text.act(list("é".encode())) == "é"
    assert text.whole == "ab\ufffdé|é"


def test_text_that_differs_from_its_tokens_stays_as_written():
    # Images are many tokens and one placeholder; a first token stands for no text.
    text = RunningText(Bytes(), list(b"(###)?"), "#?")
    assert text.act(list(b"yes")) == "yes"
    text.observe(list(b"<(##)>"), "<#>")
    assert text.act(list(b"no")) == "no"
    assert text.whole == "#?yes<#>no"


def test_pieces_without_tokens_add_nothing():
    text = RunningText(Bytes(), list(b"ab"), "ab")
    text.observe([])
    assert text.act([]) == ""
    assert text.act(list(b"c")) == "c"
    assert text.whole == "abc"


def test_the_work_grows_with_the_tokens_not_with_their_square():
    decode = Bytes()
    text, turns = RunningText(decode, list(b"a" * 20), "a" * 20), 100
    for _ in range(turns):
        text.act(list(b"b" * 20))
        text.observe(list(b"c" * 20))
    assert len(text.whole) == 20 + turns * 40
    assert decode.decoded < 4 * len(text.whole)


def test_the_cost_is_linear_in_the_tokens():
    """Of 100 actions without an answer each is decoded with the one before it, not with all of them."""
    decoded = []
    text = RunningText(lambda ids: decoded.append(len(ids)) or "x" * len(ids), [1] * 50, "prompt")
    for _ in range(100):
        assert text.act([2, 2]) == "xx"
        text.observe([])
    assert text.whole == "prompt" + 200 * "x"
    assert sum(decoded) < 50 + 52 + 100 * 10

import time

import pytest

from deepgym.integrations.prompts import TAIL_CHARS, strip_prompt

# 600 characters without a repetition.
LONG = "".join(f"{number:04d};" for number in range(120))


def test_the_prompt_is_cut_from_the_front():
    assert strip_prompt("prompt: answer", "prompt: ") == "answer"
    assert strip_prompt("prompt", "prompt") == ""


def test_an_empty_prompt_leaves_the_query():
    assert strip_prompt("answer", "") == "answer"


def test_a_query_without_its_prompt_has_no_response():
    assert strip_prompt("answer", "prompt") is None
    assert strip_prompt("", "prompt") is None
    assert strip_prompt(LONG[:-1], LONG) is None  # the front of the prompt is not its end


def test_a_special_token_before_the_prompt():
    assert strip_prompt("<s>prompt: answer", "prompt: ") == "answer"


@pytest.mark.parametrize("kept", [TAIL_CHARS, TAIL_CHARS + 1, 400, 599])
def test_a_prompt_that_lost_its_front(kept):
    assert strip_prompt(LONG[-kept:] + "answer", LONG) == "answer"
    assert strip_prompt("\ufffd" + LONG[-kept:] + "answer", LONG) == "answer"  # a token was cut within a character


def test_less_than_the_tail_is_no_prompt():
    assert strip_prompt(LONG[-TAIL_CHARS + 1 :] + "answer", LONG) is None


def test_a_response_that_repeats_the_prompts_end_is_kept_whole():
    response = f"You asked: {LONG[-300:]}\n```\ncode\n```"
    assert strip_prompt(LONG[100:] + response, LONG) == response


def test_a_prompt_that_holds_its_end_twice_is_cut_whole():
    """A few-shot prompt: its first example must not become part of the response."""
    end = LONG[:300]
    prompt = f"{end} = 1\n{end}"
    assert strip_prompt("<s>" + prompt + "answer", prompt) == "answer"
    assert strip_prompt(prompt[20:] + "answer", prompt) == "answer"


def test_a_prompt_further_inside_counts_too():
    assert strip_prompt("x" * 500 + "prompt: answer", "prompt: ") == "answer"
    assert strip_prompt("x" * 500 + "prompt: a prompt: b", "prompt: ") == "b"


def test_a_hostile_query_takes_no_time():
    prompt = "b" + "a" * 10_000
    started = time.perf_counter()
    assert strip_prompt("c" * 1000 + "a" * 2_000_000, prompt) == ""
    assert time.perf_counter() - started < 2

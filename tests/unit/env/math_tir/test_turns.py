"""The turn machine in text: every rule of its two states."""

import pytest

from openrlhf.env.math_tir.turns import ENDS, FENCES, OPEN, End, GoOn, Run, Turns


def opened(rounds: int = 2) -> Turns:
    turns = Turns(rounds)
    assert turns.take(f"Let me compute.\n{OPEN}") == GoOn()
    return turns


def test_text_stops_at_an_opening_fence_and_code_at_a_closing_one():
    turns = Turns(rounds=1)
    assert turns.stops == (*ENDS, OPEN)
    assert turns.take(f"so\n{OPEN}") == GoOn()
    assert turns.stops == (*ENDS, *FENCES)
    assert turns.take("\nprint(6 * 7)\n```") == Run("print(6 * 7)\n")


def test_after_its_rounds_the_policy_finishes_freely():
    turns = Turns(rounds=2)
    for _ in range(2):
        assert OPEN in turns.stops
        turns.take(f"a {OPEN}")
        assert isinstance(turns.take("\nx\n```"), Run)
    assert turns.stops == ENDS
    assert turns.take("```python\nx\n``` is text now </answer>") == End()


def test_without_rounds_there_is_no_code():
    assert Turns(rounds=0).stops == ENDS


@pytest.mark.parametrize("text", [*(f"the answer {stop}" for stop in ENDS), "the answer.<eos>", ""])
def test_every_other_stop_ends_the_episode(text):
    assert Turns(rounds=2).take(text) == End()
    assert opened().take(text) == End()


@pytest.mark.parametrize("fence", ["```", "```\n", "```\n\n", "```\n\nAnd"])
def test_the_last_token_may_reach_beyond_the_fence(fence):
    assert opened().take(f"\nx = 1\n{fence}") == Run("x = 1\n")


def test_the_last_token_may_reach_beyond_the_opening_fence():
    """Ids are trusted: a token of "python" and a line break is the end of one action, its line break is the block's."""
    turns = Turns(rounds=1)
    assert turns.take(f"{OPEN}\nx") == GoOn()
    assert turns.take(" = 1\n```") == Run("x = 1\n")


@pytest.mark.parametrize(
    ("code", "step"),
    [
        ("\n```", GoOn()),  # an empty block: nothing to run, the policy goes on
        ("\n  \n\n```", GoOn()),
        (" print(1)```", End()),  # on one line: no block
        ("3\nprint(1)\n```", End()),  # ```python3
        (" \nprint(1)\n```", Run("print(1)\n")),
        ("\nprint(1)```", Run("print(1)")),
        ("\nprint('User:')\n", End()),  # a stop of the text is one in code too
        ("\ns = '```'", Run("s = '")),  # a fence inside code closes it: the engine stops there
    ],
)
def test_what_stands_between_the_fences(code, step):
    assert opened().take(code) == step


def test_an_empty_block_uses_up_its_round():
    turns = opened(rounds=1)
    turns.take("\n```")
    assert turns.stops == ENDS


def test_the_stop_that_is_complete_first_counts():
    assert Turns(rounds=1).take("</answer>```python") == End()
    assert Turns(rounds=1).take("```python</answer>") == GoOn()

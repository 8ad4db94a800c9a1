"""Form, length, words and use of code, with numbers from SPEC's rules."""

import pytest

from openrlhf.env.terms.answer_format import answer_part, format_value
from openrlhf.env.terms.code_use import code_use
from openrlhf.env.terms.length import overlong_penalty
from openrlhf.env.terms.words import has_new_idea, reflects

GOOD = r"so </think> <answer> \boxed{7} </answer>"


def words(text: str) -> int:
    return len(text.split())


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (GOOD, 0.0),
        (r"</think> \boxed{7}", -3.0),
        (r"</think> <answer> \boxed{7}", -3.0),  # never closed
        (r"\boxed{7} </think> <answer> 7 </answer>", -2.0),  # the box is outside
        (r"</think> <answer> \boxed{7 </answer>", -2.0),  # the box never closes
        (r"<answer> \boxed{7} </answer>", -1.0),  # no </think>
        (rf"</think> {GOOD}", -1.0),
        (rf"<answer>x</answer> {GOOD}", -1.0),
        (GOOD + " one two three four five", 0.0),
        (GOOD + " one two three four five six", -0.5),
    ],
)
@pytest.mark.parametrize("template", ["ZERO_V2", "ZERO_TIR"])
def test_form_of_a_template(text, value, template):
    assert format_value(text, template, False, words) == value


def test_loose_form_does_not_look_at_thinking():
    assert format_value(r"<answer> \boxed{7} </answer>", "ZERO_TIR", True, words) == 0.0
    assert format_value(rf"</think> {GOOD}", "ZERO_TIR", True, words) == 0.0


@pytest.mark.parametrize(("text", "value"), [(r"so \boxed{7}", 0.0), ("so 7", -2.0), (r"<think>\boxed{7}", -2.0)])
def test_without_a_template_a_box_is_enough(text, value):
    assert format_value(text, "", False, words) == value


def test_the_last_answer_counts():
    assert answer_part("<answer>a</answer> no: <answer>b</answer>") == "b"


@pytest.mark.parametrize(
    ("num_tokens", "expected"), [(0, 0.0), (512, 0.0), (640, -0.25), (768, -0.5), (1024, -1.0), (2000, -1.0)]
)
def test_overlong_penalty(num_tokens, expected):
    assert overlong_penalty(num_tokens, 1024) == expected  # (n - 512) / 512


def test_words():
    assert reflects("Hmm. Wait, is that so?")
    assert not reflects("The waiter came.")
    assert has_new_idea("Alternatively, count them.")
    assert not has_new_idea("Count them.")


def test_code_use():
    text = "```python\nprint(1)\n```\n```output\n1\n```\n ```python\nx"
    use = code_use(text, {"code_runs": 2, "code_errors": 2, "last_failed": 1})
    assert (use.blocks, use.opened, use.outputs, use.runs, use.errors) == (1, 2, 1, 2, 2)
    assert use.all_failed
    assert use.last_failed


def test_nothing_ran_is_not_all_failed():
    assert not code_use("", {}).all_failed

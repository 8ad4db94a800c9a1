"""The form that a template asks of a response, and what is wrong with it.

ZERO_V2 and ZERO_TIR want `... </think> <answer> ... \\boxed{...} ... </answer>` (the prompt opens `<think>`), each
closing tag and `<answer>` once, and next to nothing behind it. Without a template a box is enough.
"""

from collections.abc import Callable

from openrlhf.env.math.boxed import last_boxed, outside_thinking

TEMPLATES = ("", "ZERO_V2", "ZERO_TIR")
ANSWER_OPEN, ANSWER_CLOSE, THINK_CLOSE = "<answer>", "</answer>", "</think>"
MAX_TRAILING_TOKENS = 5

NO_ANSWER_TAGS, NO_BOX, WRONG_TAGS, TRAILING, GOOD = -3.0, -2.0, -1.0, -0.5, 0.0


def answer_part(text: str) -> str | None:
    """What stands between the last `<answer>` and the `</answer>` behind it; None without such a pair."""
    _, opened, rest = text.rpartition(ANSWER_OPEN)
    inside, closed, _ = rest.partition(ANSWER_CLOSE)
    return inside if opened and closed else None


def trailing_part(text: str) -> str:
    """What stands behind the last `</answer>`."""
    return text.rpartition(ANSWER_CLOSE)[2].strip()


def tags_once(text: str, thinking: bool = True) -> bool:
    """Whether `<answer>`, `</answer>` and, where it thinks, `</think>` stand in the text exactly once."""
    wanted = (ANSWER_OPEN, ANSWER_CLOSE, *((THINK_CLOSE,) if thinking else ()))
    return all(text.count(tag) == 1 for tag in wanted)


def format_value(text: str, template: str, loose: bool, count_tokens: Callable[[str], int]) -> float:
    """0 for a good form, else how bad it is.

        no pair of answer tags -3; no box inside -2; a tag missing or twice -1; over 5 tokens behind the answer -0.5

    `loose`: `</think>` may be missing or stand several times. Without a template: 0 with a box, -2 without one.
    """
    if not template:
        return GOOD if last_boxed(outside_thinking(text)) is not None else NO_BOX
    inside = answer_part(text)
    if inside is None:
        return NO_ANSWER_TAGS
    if last_boxed(inside) is None:
        return NO_BOX
    if not tags_once(text, thinking=not loose):
        return WRONG_TAGS
    return TRAILING if count_tokens(trailing_part(text)) > MAX_TRAILING_TOKENS else GOOD

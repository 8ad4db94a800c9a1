"""The form of an answer to a logic puzzle: `... </think> <answer> ... </answer>` and little behind it."""

import asyncio
from collections.abc import Callable

from openrlhf.env.task import TaskSample
from openrlhf.env.terms.answer_format import tags_once, trailing_part
from openrlhf.env.terms.repetition import repeatness, repetition

MAX_TRAILING_TOKENS = 50
GOOD, BAD = 1.0, -1.0


def form_of(text: str, count_tokens: Callable[[str], int]) -> float:
    """1 where `</think>`, `<answer>` and `</answer>` stand exactly once and at most 50 tokens follow, else -1."""
    good = tags_once(text) and count_tokens(trailing_part(text)) <= MAX_TRAILING_TOKENS
    return GOOD if good else BAD


async def form_logs(sample: TaskSample, form: float) -> dict[str, float | None]:
    """The numbers that the filters of logic puzzles read."""
    text = sample.text
    return {
        "format_answer": float(form < 0),
        "finish_reason": float(sample.stopped),
        "truncated": float(sample.finish_reason == "length"),
        "other": float(sample.finish_reason not in ("stop", "length")),
        "repeatness": await asyncio.to_thread(repeatness, text),
        "repetition_penalty": repetition(text),
    }

"""Zebra puzzles: one boxed answer, compared word for word.

rewards = 1 or -1 for the form, a box inside the answer included, + 1 for the right answer
"""

from collections.abc import Mapping
from typing import Any

from openrlhf.env.errors import EnvError
from openrlhf.env.label import gold_of
from openrlhf.env.logic.form import BAD, form_logs, form_of
from openrlhf.env.math.answers import simplify
from openrlhf.env.math.boxed import last_boxed
from openrlhf.env.task import REWARD, SCORE, TaskSample
from openrlhf.env.terms.answer_format import answer_part
from openrlhf.env.tools import TaskTools


async def zebralogic_reward(sample: TaskSample, tools: TaskTools) -> dict[str, float | None]:
    text = sample.text
    said = last_boxed(answer_part(text) or "")
    form = BAD if said is None else form_of(text, sample.count_tokens)
    right = float(said is not None and _plain(said) == _plain(gold_of(sample.label)))
    return await form_logs(sample, form) | {REWARD: form + right, SCORE: right}


def check_zebralogic_label(label: Mapping[str, Any]) -> None:
    """EnvError for a label without a right answer."""
    if not _plain(gold_of(label)):
        raise EnvError("task zebralogic: the label holds no 'gold_ans' (or 'answer')")


def _plain(answer: str) -> str:
    """In lower case, without white space and without what typesets it."""
    return "".join(simplify(answer).lower().split())

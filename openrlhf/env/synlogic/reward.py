"""The reward of the task synlogic: reasoning-gym's own check of a puzzle that the label names by `data_source`.

    rewards = the check's score, 0 to 1, - 1 for a bad form where --env.terms.format_enable asks for it

With `"template": "ZERO_V2"` in the label the response must have the form of `logic/form.py`, else its answer is not
looked at. Without a template the answer is what stands in answer tags, else in the last box, else the whole response
after its thinking.
"""

from collections.abc import Mapping
from typing import Any

from openrlhf.env.errors import EnvError
from openrlhf.env.logic.form import BAD, GOOD, form_logs, form_of
from openrlhf.env.math.boxed import last_boxed, outside_thinking
from openrlhf.env.synlogic.sources import check_label, entry_of, generator_of
from openrlhf.env.task import REWARD, SCORE, TaskSample
from openrlhf.env.terms.answer_format import answer_part
from openrlhf.env.tools import TaskTools

TEMPLATES = ("", "ZERO_V2")


async def synlogic_reward(sample: TaskSample, tools: TaskTools) -> dict[str, float | None]:
    text = sample.text
    form = form_of(text, sample.count_tokens) if sample.label.get("template") else GOOD
    logs = await form_logs(sample, form)
    score: float | None = 0.0
    if form != BAD:
        entry = entry_of(sample.label, sample.prompt)
        score = await tools.puzzles.verify(generator_of(sample.label), answer_of(text), entry)
        logs["rule_eval_fails"] = float(score is None)
    if score is None:
        return logs | {REWARD: None, SCORE: None}
    penalty = 1.0 if form == BAD and tools.terms.format_enable else 0.0
    return logs | {REWARD: score - penalty, SCORE: score}


def answer_of(text: str) -> str:
    """What a response answers: in answer tags, else boxed, else all of it that is no thinking."""
    tagged = answer_part(text)
    if tagged is not None:
        return tagged.strip()
    spoken = outside_thinking(text)
    boxed = last_boxed(spoken)
    return spoken.strip() if boxed is None else boxed


def check_synlogic_label(label: Mapping[str, Any]) -> None:
    """EnvError for a puzzle that nothing checks, or a template that nobody knows."""
    check_label(label)
    if label.get("template", "") not in TEMPLATES:
        raise EnvError(f"task synlogic: no template is called {label['template']!r}; known: ZERO_V2, or none at all")

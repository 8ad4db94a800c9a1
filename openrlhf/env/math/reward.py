"""The reward of the tasks math and math_tir.

    rewards = answer + the terms that --env.terms.* switch on

    answer            1 or 0: math-verify, and where --env.verifier.judge_enable asks for it a judging model; the better
                      of both. Only a response of good form that ended by itself is verified, others have 0. With a
                      template the answer is the last box inside the answer tags.
    + format          0, -0.5, -1, -2 or -3 (`terms/answer_format.py`)
    + overlong        0 to -1 (`terms/length.py`)
    + tool_bonus, pattern_bonus, - 0.1 for code that mostly failed, and in math - the label's penalty for repetition:
                      right answers only

Without any verdict the sample is ungraded.
"""

import asyncio
from collections.abc import Mapping

from openrlhf.config.terms import TermsConfig
from openrlhf.env.errors import EnvError
from openrlhf.env.label import gold_of, number_of, structure_fault
from openrlhf.env.math.answers import gold_answer
from openrlhf.env.math.boxed import last_boxed, outside_thinking
from openrlhf.env.task import REWARD, SCORE, TaskSample
from openrlhf.env.terms.answer_format import TEMPLATES, answer_part, format_value
from openrlhf.env.terms.code_use import CodeUse, code_use
from openrlhf.env.terms.length import overlong_penalty
from openrlhf.env.terms.repetition import repeatness, repetition
from openrlhf.env.terms.words import has_new_idea, reflects
from openrlhf.env.tools import TaskTools

RIGHT = 0.5  # an answer above this is right
SHORTCUT_REPEATNESS = 0.1
REPEATNESS_THRESHOLD, REPEATNESS_PENALTY = 0.05, 0.1  # where the label does not say
CODE_ERRORS_PENALTY, CODE_ERRORS_SHARE = 0.1, 0.9

Numbers = dict[str, float | None]


async def math_reward(sample: TaskSample, tools: TaskTools) -> Numbers:
    """Reward of a single-turn response."""
    return await _reward(sample, tools, code=None)


async def math_tir_reward(sample: TaskSample, tools: TaskTools) -> Numbers:
    """Reward of a response with code blocks."""
    return await _reward(sample, tools, code=code_use(sample.text, sample.facts))


def check_math_label(label: Mapping[str, object]) -> None:
    """EnvError for a label without a right answer that a response can equal, with a template that nobody knows, or with
    a number that is none.
    """
    if not gold_of(label).strip():
        raise EnvError("tasks math and math_tir: the label holds no 'gold_ans' (or 'answer')")
    fault = structure_fault(gold_answer(gold_of(label)))
    if fault is not None:
        raise EnvError(f"tasks math and math_tir: {fault}")
    template = label.get("template", "")
    if template not in TEMPLATES:
        known = ", ".join(name for name in TEMPLATES if name)
        raise EnvError(f"tasks math and math_tir: no template is called {template!r}; known: {known}, or none at all")
    _repeatness_threshold(label)
    _repeatness_penalty(label)


def _repeatness_threshold(label: Mapping[str, object]) -> float:
    return number_of(label, "repeatness_threshold", REPEATNESS_THRESHOLD)


def _repeatness_penalty(label: Mapping[str, object]) -> float:
    return number_of(label, "repeatness_penalty", REPEATNESS_PENALTY)


async def _reward(sample: TaskSample, tools: TaskTools, code: CodeUse | None) -> Numbers:
    text, terms = sample.text, tools.terms
    form = format_value(text, str(sample.label.get("template", "")), terms.format_loose, sample.count_tokens)
    logs: Numbers = {
        "format_answer": float(form < 0),
        "finish_reason": float(sample.stopped),
        "truncated": float(sample.finish_reason == "length"),
        "other": float(sample.finish_reason not in ("stop", "length")),
        "more_boxed": float(text.count("\\boxed") > 1),
        "no_boxed": float("\\boxed" not in text),
        "reflection": float(reflects(text)),
        "new_idea": float(has_new_idea(text)),
        "repeatness": await asyncio.to_thread(repeatness, text),
        "repetition_penalty": repetition(text),
        "overlong_punishment": overlong_penalty(sample.num_tokens, sample.max_tokens),
        **({} if code is None else code.logs()),
    }
    answer: float | None = 0.0
    if form == 0.0 and sample.stopped:
        answer, verdicts = await _verified(sample, tools)
        logs |= verdicts
    if answer is None:
        return logs | {REWARD: None, SCORE: None}
    if terms.shortcut_enable and logs["repeatness"] > SHORTCUT_REPEATNESS:  # type: ignore[operator]
        answer = 0.0
    reward = answer + (form if terms.format_enable else 0.0)
    if terms.overlong_enable:
        reward += logs["overlong_punishment"] or 0.0
    if answer > RIGHT:
        reward += _bonuses(sample, terms, logs, code)
    return logs | {REWARD: reward, SCORE: answer}


async def _verified(sample: TaskSample, tools: TaskTools) -> tuple[float | None, Numbers]:
    """(verdict, what led to it); None: no verifier reached one. The judge is not asked about what is right already."""
    gold = gold_of(sample.label)
    said = sample.text
    if sample.label.get("template"):
        said = answer_part(outside_thinking(said)) or ""  # the form is judged inside the tags, and so is the answer
    rule = await tools.math.verify(sample.prompt, said, gold)
    logs: Numbers = {"rule_rewards": rule or 0.0, "rule_eval_fails": float(rule is None)}
    if rule == 1.0 or tools.judge is None:
        return rule, logs
    boxed = last_boxed(outside_thinking(said))
    question = str(sample.label.get("question", sample.prompt))
    model = None if boxed is None else await tools.judge.verify(question, boxed, gold)
    logs |= {"model_rewards": model or 0.0, "model_eval_fails": float(model is None)}
    known = [verdict for verdict in (rule, model) if verdict is not None]
    return max(known, default=None), logs


def _bonuses(sample: TaskSample, terms: TermsConfig, logs: Numbers, code: CodeUse | None) -> float:
    """What a right answer gets or loses beside the answer itself."""
    bonus = 0.0
    if code is None:
        if terms.quality_enable and (logs["repeatness"] or 0.0) > _repeatness_threshold(sample.label):
            bonus -= _repeatness_penalty(sample.label)
        if logs["new_idea"] or logs["reflection"]:
            bonus += terms.pattern_bonus
        return bonus
    if logs["new_idea"]:
        bonus += terms.pattern_bonus
    if code.blocks > 0 and code.outputs > 0 and not code.all_failed:
        bonus += terms.tool_bonus
    if terms.code_errors_enable and code.runs > 1 and code.errors > CODE_ERRORS_SHARE * code.runs:
        bonus -= CODE_ERRORS_PENALTY
    return bonus

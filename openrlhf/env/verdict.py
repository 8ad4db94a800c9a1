"""From what a task's reward answers to an outcome.

    {"rewards": number, "answer_rewards": number, anything else: number}

A number is a float, an int, a bool, or a list or array of one. None, NaN and what float32 holds only as infinite
mean in `rewards` and `answer_rewards` that there is no verdict. What else is no number is left out.
"""

import math
import numbers
from collections.abc import Mapping
from typing import Any

import numpy as np

from openrlhf.env.errors import EnvError
from openrlhf.env.task import REWARD, SCORE
from openrlhf.types import FLOAT32_MAX, RewardOutcome, Status


def read_numbers(raw: Any, task: str) -> dict[str, float]:
    """All numbers of an answer, `rewards` and `answer_rewards` among them, NaN where there is no verdict.

    EnvError for an answer of another form.
    """
    if not isinstance(raw, Mapping) or REWARD not in raw:
        shown = f"keys {', '.join(map(str, raw))}" if isinstance(raw, Mapping) else f"a {type(raw).__name__}"
        raise EnvError(f"task {task}: its reward answered {shown}; expected a dict with {REWARD!r}")
    found = {str(key): number for key, value in raw.items() if (number := _number(value)) is not None}
    for key in (REWARD, SCORE):
        if key in raw and key not in found:
            raise EnvError(f"task {task}: its reward's {key!r} is {raw[key]!r}; expected a number")
    return {SCORE: found[REWARD]} | found


def outcome(numbers_: Mapping[str, float], task: str) -> RewardOutcome:
    """The outcome of these numbers; what is finite beside reward and score goes to the log."""
    logs = {key: value for key, value in numbers_.items() if key not in (REWARD, SCORE) and math.isfinite(value)}
    reward, score = numbers_[REWARD], numbers_[SCORE]
    if abs(reward) <= FLOAT32_MAX and abs(score) <= FLOAT32_MAX:  # False for NaN
        return RewardOutcome(reward, score, Status.GRADED, "", logs)
    return RewardOutcome(math.nan, math.nan, Status.UNGRADED, f"task {task}: its reward has no verdict", logs)


def _number(value: Any) -> float | None:
    """The value as a float, NaN for None, infinite for an int beyond float64; None for what is no number."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, list | tuple):
        if len(value) != 1:
            return None
        value = value[0]
    if value is None:
        return math.nan
    if not isinstance(value, numbers.Real):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf  # type: ignore[operator]

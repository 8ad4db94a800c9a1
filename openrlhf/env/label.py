"""Labels as JSON objects: {"uuid": ..., "env_func": ..., "task": ..., "gold_ans": ..., ...}."""

import json
import math
import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from openrlhf.env.errors import EnvError

GOLD = "gold_ans"
_MAX_DIGITS = 400  # of a number that is written without its exponent
# {'gold_ans': '7'}, {"a": 1}, ['7'], [{"a": 1}]: the quotes are Python's or JSON's, mathematics has none there.
_STRUCTURE = re.compile(r"""\s*(?:\{|\[\s*\{?)\s*(['"])[^'"]{0,200}\1\s*[\]}:,]""")
_SHOWN = 60  # characters of a label in a message


class _Written(float):
    """A number that remembers its digits, which float64 may not hold: 1.50, 12345678901234567890.5."""

    def __init__(self, text: str) -> None:
        self.text = text


def read_label(text: str) -> Mapping[str, Any]:
    """The object without the fields that are null, or {"gold_ans": text} for a label that is no object."""
    try:
        value = json.loads(text, parse_float=_Written)
    except (ValueError, RecursionError):
        return {GOLD: text}
    if not isinstance(value, dict):
        return {GOLD: text}
    return {name: field for name, field in value.items() if field is not None}


def gold_of(label: Mapping[str, Any]) -> str:
    """The right answer as text: `gold_ans`, else `answer`; "" where the label has neither."""
    value = label.get(GOLD, label.get("answer", ""))
    if isinstance(value, str):
        return value
    if isinstance(value, _Written):
        number = Decimal(value.text)
        return format(number, "f") if abs(number.adjusted()) < _MAX_DIGITS else value.text  # 0.00001, not 1e-05
    return "" if value is None else json.dumps(value, ensure_ascii=False)


def structure_fault(gold: str) -> str | None:
    """What is wrong with a right answer that is a dict, or a list of texts, in Python or JSON; None: nothing."""
    if not _STRUCTURE.match(gold):
        return None
    return (
        f"the right answer {gold.strip()[:_SHOWN]!r} is a dict or list as Python or JSON writes it, which is no "
        f"mathematics; write the answer alone, or a JSON object with it as text under {GOLD!r} (or 'answer')"
    )


def number_of(label: Mapping[str, Any], name: str, default: float) -> float:
    """A field that holds a number; `default` where the label has none of that name. EnvError for anything else."""
    value = label.get(name, default)
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise EnvError(f"the label's {name!r} must be a number, not {value!r}; leave it out for {default:g}")
    return number

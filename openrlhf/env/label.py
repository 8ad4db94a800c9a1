"""Labels as JSON objects: {"uuid": ..., "env_func": ..., "task": ..., "gold_ans": ..., ...}."""

import json
from collections.abc import Mapping
from typing import Any

GOLD = "gold_ans"


def read_label(text: str) -> Mapping[str, Any]:
    """The object, or {"gold_ans": text} for a label that is none."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {GOLD: text}
    return value if isinstance(value, dict) else {GOLD: text}


def gold_of(label: Mapping[str, Any]) -> str:
    """The right answer as text: `gold_ans`, else `answer`; "" where the label has neither."""
    value = label.get(GOLD, label.get("answer", ""))
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)

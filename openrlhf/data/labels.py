"""Labels reach the reward function as text that says what the file says: 2 stays "2", never "2.0"."""

import json
import math
from decimal import Decimal
from typing import Any

from openrlhf.data.errors import DataError
from openrlhf.data.rows import Row


class ExactFloat(float):
    """A float that remembers how the file spelled it, so that 0.50 or 1e3 is not respelled on its way."""

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> "ExactFloat":
        self = super().__new__(cls, text)
        self.text = text
        return self


def label_text(row: Row, key: str | None) -> str:
    """The label of a row as str: "" for absent or null, text as it is, numbers as spelled, the rest as JSON text.

    Example: 2 -> `2`, true -> `true`, "007" -> `007`, [1, 2] -> `[1, 2]`, {"answer": "7"} -> `{"answer": "7"}`.

    Raises DataError for a value that has no such text (NaN, a date, bytes), naming row and key.
    """
    value = None if key is None else row.values.get(key)
    if value is None:
        return ""
    try:
        return require_encodable(value if isinstance(value, str) else json_text(value))
    except ValueError as error:
        raise DataError(f"{row.where}: {key!r}: {error}; store it as a string") from error
    except RecursionError as error:
        raise DataError(f"{row.where}: {key!r}: the value is nested too deeply; store it as a string") from error


def json_text(value: Any) -> str:
    """JSON text of a value, spaced as `json.dumps` does, non-ASCII letters kept. ValueError where JSON has none."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, ExactFloat):
        if math.isnan(value) or value.text.endswith("Infinity"):
            raise ValueError(f"the value is {value.text}")
        return value.text
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"the value is {value}")
        return repr(value)
    if isinstance(value, Decimal) and value.is_finite():
        return format(value, "f")
    if isinstance(value, list):
        return f"[{', '.join(json_text(item) for item in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{json_text(str(key))}: {json_text(item)}' for key, item in value.items())}}}"
    raise ValueError(f"a value of type {type(value).__name__} has no exact text")


def require_encodable(text: str) -> str:
    """Return `text`; ValueError if it holds half of a surrogate pair, which no tokenizer or socket takes."""
    if not text.isascii():
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ValueError(f"character {error.start + 1} is half of a surrogate pair") from error
    return text


def label_names(label: str) -> dict[str, str]:
    """`task` and `env_func` of a label that is a JSON object; {} for any other label."""
    if not label.lstrip().startswith("{"):
        return {}
    try:
        fields = json.loads(label)
    except (ValueError, RecursionError):
        return {}
    return {key: fields[key] for key in ("task", "env_func") if isinstance(fields.get(key), str) and fields[key]}

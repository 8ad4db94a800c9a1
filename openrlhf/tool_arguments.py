"""Arguments of a tool call: OpenAI writes them as JSON in a string, chat templates read an object."""

import json
from typing import Any


def arguments_object(text: str) -> dict[str, Any] | None:
    """The object that a string of arguments holds; None where it holds none.

    Example: '{"city": "SF"}' -> {"city": "SF"}; 'SF' and '[1]' -> None.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # no JSON, or nested too deeply to be read
        return None
    return value if isinstance(value, dict) else None

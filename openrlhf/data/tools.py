"""The tools of a row, which its chat template tells the policy of."""

import json
from typing import Any

from openrlhf.data.errors import DataError
from openrlhf.data.rows import Row

TOOLS = "tools"  # the column
_EXPECTED = (
    "the chat template takes a list of objects, one for each tool, or its JSON text; give the column another name if "
    "it holds something else"
)


def tools_of(row: Row) -> list[dict[str, Any]]:
    """The row's tools, in the form that chat templates read; none where the row names none.

    A list of objects, or JSON text of one, since typed columns cannot hold every schema. None entries of a list were
    added by a typed column where another row has a value, and are left out. DataError naming the row for another form.
    """
    value = row.values.get(TOOLS)
    if value is None or value == "":
        return []
    tools = _read(row, value) if isinstance(value, str) else without_nulls(value)
    if not isinstance(tools, list) or not all(isinstance(tool, dict) for tool in tools):
        raise DataError(f"{row.where}: {TOOLS!r} is {_shown(tools)}; {_EXPECTED}")
    return tools


def without_nulls(value: Any) -> Any:
    """The value without the None entries of its dicts, at any depth; those of lists stay."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def _read(row: Row, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DataError(f"{row.where}: {TOOLS!r} is text that is no JSON; {_EXPECTED}") from error


def _shown(value: Any) -> str:
    if not isinstance(value, list):
        return f"of type {type(value).__name__}"
    return f"a list with a {next(type(item).__name__ for item in value if not isinstance(item, dict))}"

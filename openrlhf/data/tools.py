"""The tools of a row, which its chat template tells the policy of."""

import json
import logging
from collections.abc import Sequence
from typing import Any

from openrlhf.data.rows import Row

TOOLS = "tools"  # the column
logger = logging.getLogger(__name__)


def tools_of(row: Row) -> list[dict[str, Any]]:
    """The row's tools, in the form that chat templates read; none where the row names none, or something else.

    A list of objects or a single one; each, or the whole, may be its JSON text, since typed columns cannot hold every
    schema.
    """
    return _found(row) or []


def warn_of_other_tools(rows: Sequence[Row]) -> None:
    """Name, once for each file, a row whose column holds something else than tools: its prompt shows none."""
    told: set[str] = set()
    for row in rows:
        if row.source not in told and _found(row) is None:
            told.add(row.source)
            logger.warning(
                "%s: column %r has no effect here, nor in other rows like this: the chat template takes a list of "
                "objects, one for each tool, or its JSON text",
                row.where,
                TOOLS,
            )


def without_nulls(row: Row, value: Any) -> Any:
    """The value without what its table, if it is a typed one, added: the None entries of dicts, at any depth."""
    return _without_nulls(value) if row.typed else value


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def _found(row: Row) -> list[dict[str, Any]] | None:
    """The tools; None for a value that is none."""
    value = _read(without_nulls(row, row.values.get(TOOLS)))
    if value is None or value == {}:
        return []
    tools = [_read(item) for item in value] if isinstance(value, list) else [value]
    return tools if all(isinstance(tool, dict) for tool in tools) else None


def _read(value: Any) -> Any:
    """What JSON text holds, None if it is blank; anything else, text that is no JSON too, as it is."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value) if value.strip() else None
    except (ValueError, RecursionError):
        return value

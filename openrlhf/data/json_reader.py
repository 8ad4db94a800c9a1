"""json and jsonl, read value by value: Arrow's readers would guess one type per column and change what differs."""

import json
import re
from collections.abc import Iterator, Set
from pathlib import Path
from typing import Any

from openrlhf.data.errors import DataError
from openrlhf.data.labels import ExactFloat
from openrlhf.data.rows import Row, Table, decode_line

_BOM = b"\xef\xbb\xbf"
_BLANK = " \t\r\n"
_SPACE = re.compile(r"[ \t\r\n]*")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        keys = [key for key, _ in pairs]
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {repeated!r} appears twice in one object")
    return result


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_float=ExactFloat, parse_constant=ExactFloat)


def read_json(path: Path, wanted: Set[str]) -> Table:
    """Rows of a file that holds one JSON object per line, or one JSON array of objects.

    Blank lines, CRLF and a byte-order mark are fine. DataError names file and line of: text that is not JSON or not
    UTF-8, a row that is not an object, a key that appears twice in one object.
    """
    with path.open("rb") as file:
        start = file.read(4096).removeprefix(_BOM).lstrip()[:1]
    columns: dict[str, None] = {}
    rows = []
    for number, record in _array(path) if start == b"[" else _lines(path):
        if not isinstance(record, dict):
            raise DataError(f"{path}:{number}: the row is a {type(record).__name__}, expected an object {{...}}")
        columns.update(dict.fromkeys(record))
        rows.append(Row({key: record[key] for key in wanted if key in record}, str(path), number, "line"))
    return Table(str(path), tuple(columns), rows)


def _lines(path: Path) -> Iterator[tuple[int, Any]]:
    with path.open("rb") as file:
        for number, raw in enumerate(file, start=1):
            text = decode_line(raw.removeprefix(_BOM) if number == 1 else raw, str(path), number).strip(_BLANK)
            if not text:
                continue
            record, end = _decode(path, text, 0, number)
            if end < len(text):
                raise DataError(f"{path}:{number}: not JSON: more text after column {end}; one object on each line")
            yield number, record


def _array(path: Path) -> Iterator[tuple[int, Any]]:
    lines = path.read_bytes().removeprefix(_BOM).split(b"\n")
    text = "\n".join(decode_line(line, str(path), number) for number, line in enumerate(lines, start=1))
    place, number = _skip(text, 0)
    place += 1  # the opening bracket
    separator = ""
    while separator != "]":
        start, line = _skip(text, place)
        number += line
        if not separator and text[start : start + 1] == "]":
            place = start + 1
            break
        record, end = _decode(path, text, start, number + 1)
        yield number + 1, record
        number += text.count("\n", start, end)
        place, line = _skip(text, end)
        number += line
        separator = text[place : place + 1]
        if separator not in (",", "]") or not separator:
            raise DataError(f"{path}:{number + 1}: not JSON: expected ',' or ']' after a row of the array")
        place += 1
    end, line = _skip(text, place)
    if end < len(text):
        raise DataError(f"{path}:{number + line + 1}: not JSON: more text after the array's ']'")


def _skip(text: str, start: int) -> tuple[int, int]:
    """End of the white space at `start`, and how many newlines it holds."""
    end = _SPACE.match(text, start).end()  # type: ignore[union-attr]  # matches the empty string too
    return end, text.count("\n", start, end)


def _decode(path: Path, text: str, start: int, number: int) -> tuple[Any, int]:
    """The value at `start` and its end; DataError with the line, which for an array may lie inside the value."""
    try:
        return _DECODER.raw_decode(text, start)
    except json.JSONDecodeError as error:
        line = number + text.count("\n", start, error.pos)
        hint = "" if path.suffix != ".json" or text[:1] == "[" else "; a .json file holds an array, or a row per line"
        raise DataError(f"{path}:{line}: not JSON: {error.msg} at column {error.colno}{hint}") from error
    except (ValueError, RecursionError) as error:  # a repeated key, an integer of thousands of digits, deep nesting
        raise DataError(f"{path}:{number}: {error}") from error

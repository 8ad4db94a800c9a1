"""Rows as they were read: values untouched, and the place each came from."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from openrlhf.data.errors import DataError


@dataclass(frozen=True, slots=True)
class Row:
    """One row with the columns that were asked for. A column that the row lacks is absent, not None."""

    values: Mapping[str, Any]
    source: str
    number: int  # from 1: the line in a text file, the row elsewhere
    unit: Literal["line", "row"]

    @property
    def where(self) -> str:
        """`prompts.jsonl:3`, or `prompts.parquet, row 3`."""
        return f"{self.source}:{self.number}" if self.unit == "line" else f"{self.source}, row {self.number}"

    @property
    def typed(self) -> bool:
        """Whether its table has one type for each column, in which a dict has the keys of every row's, as None."""
        return self.unit == "row"


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of one file or split. `columns` lists every column in it, also those that were not asked for."""

    name: str
    columns: tuple[str, ...]
    rows: list[Row]


def join(name: str, tables: Iterable[Table]) -> Table:
    """Lay tables end to end; the columns are those of any of them, in the order they were met."""
    columns: dict[str, None] = {}
    rows: list[Row] = []
    for table in tables:
        columns.update(dict.fromkeys(table.columns))
        rows.extend(table.rows)
    return Table(name, tuple(columns), rows)


def decode_line(raw: bytes, source: str, number: int) -> str:
    """UTF-8 text of one line; DataError naming the line otherwise."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{source}:{number}: not UTF-8 text (byte {error.start + 1} of the line); save it as UTF-8"
        ) from error

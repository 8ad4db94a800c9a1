"""csv with a header line; every value stays the text it is ("007" is not 7)."""

import csv
import io
import sys
from collections.abc import Set
from pathlib import Path

from openrlhf.data.errors import DataError, listing
from openrlhf.data.rows import Row, Table, decode_line


def read_csv(path: Path, wanted: Set[str]) -> Table:
    """Rows of a comma-separated file. Values are str, an empty cell is "".

    DataError names file and line of: a repeated column, a row with more or fewer cells than the header, bad quotes,
    text that is not UTF-8.
    """
    lines = path.read_bytes().removeprefix(b"\xef\xbb\xbf").splitlines(keepends=True)
    text = "".join(decode_line(line, str(path), number) for number, line in enumerate(lines, start=1))
    csv.field_size_limit(sys.maxsize)  # the module's default refuses prompts over 128 KiB
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    header: list[str] | None = None
    rows = []
    line = 1
    try:
        for cells in reader:
            start, line = line, reader.line_num + 1
            if not cells:
                continue
            if header is None:
                header = _header(path, cells)
                continue
            if len(cells) != len(header):
                raise DataError(f"{path}:{start}: {len(cells)} cells, but the header has {len(header)}")
            values = {key: cell for key, cell in zip(header, cells, strict=True) if key in wanted}
            rows.append(Row(values, str(path), start, "line"))
    except csv.Error as error:
        raise DataError(f"{path}:{line}: not csv: {error}") from error
    return Table(str(path), tuple(header or ()), rows)


def _header(path: Path, cells: list[str]) -> list[str]:
    repeated = [name for name in dict.fromkeys(cells) if cells.count(name) > 1]
    if repeated:
        raise DataError(f"{path}:1: the header names a column twice: {listing(repeated)}")
    return cells

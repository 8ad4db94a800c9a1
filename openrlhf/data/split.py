"""The split notation of `datasets`: `train`, `test[:10]`, `train[10%:20%]`, `train+test`; `[:10]` is of `train`."""

import re
from dataclasses import dataclass

from openrlhf.data.errors import DataError

_PART = re.compile(r"(?P<name>[\w.-]*)(?:\[(?P<start>-?\d+%?)?:(?P<stop>-?\d+%?)?\])?")


@dataclass(frozen=True, slots=True)
class SplitPart:
    """Rows [start, stop) of one split. A bound is `12` or `12%`, negative from the end, None where left open."""

    name: str
    start: str | None = None
    stop: str | None = None

    def indices(self, num_rows: int) -> range:
        """The rows meant, of `num_rows`. Percents round to the nearest row: 1% of 300 is 3. DataError if outside."""
        start = 0 if self.start is None else self._bound(self.start, num_rows)
        stop = num_rows if self.stop is None else self._bound(self.stop, num_rows)
        return range(start, max(start, stop))

    def _bound(self, text: str, num_rows: int) -> int:
        percent = text.endswith("%")
        number, whole = (int(text[:-1]), 100) if percent else (int(text), num_rows)
        value = round(number * num_rows / 100) if percent else number
        value = value + num_rows if text.startswith("-") else value
        if abs(number) > whole or not 0 <= value <= num_rows:
            raise DataError(f"split {self}: {text} lies outside the {num_rows} rows of {self.name!r}")
        return value

    def __str__(self) -> str:
        if self.start is None and self.stop is None:
            return self.name
        return f"{self.name}[{self.start or ''}:{self.stop or ''}]"


def parse_split(text: str) -> list[SplitPart]:
    """The parts of a split notation; DataError if it is not one."""
    parts = []
    for piece in text.split("+"):
        match = _PART.fullmatch(piece.strip())
        if match is None or not piece.strip():
            raise DataError(f"split {text!r} is not understood; write train, train[:100], train[10%:20%] or train+test")
        parts.append(SplitPart(match["name"] or "train", match["start"], match["stop"]))
    return parts

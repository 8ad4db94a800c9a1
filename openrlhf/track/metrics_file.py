"""metrics.jsonl: one JSON object per step, on disk as soon as the step is over."""

import json
import logging
import math
import os
from collections.abc import Mapping
from pathlib import Path

logger = logging.getLogger(__name__)


def encode(row: Mapping[str, float]) -> str:
    """One line of strict JSON. NaN and infinities, which JSON lacks, become null."""
    return json.dumps({name: value if math.isfinite(value) else None for name, value in row.items()}, allow_nan=False)


def read_rows(path: Path) -> list[dict[str, float | None]]:
    """The rows of a metrics file. Values logged as NaN or infinity are None."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def _decode(line: bytes) -> dict[str, float] | None:
    """The row of a line; None for what a full disk or a killed process has left of one."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    if not (isinstance(row, dict) and isinstance(row.get("step"), int) and line.endswith(b"\n")):
        return None
    return {name: math.nan if value is None else value for name, value in row.items()}


class MetricsFile:
    """Appends rows; a second row of the same step joins the first one, so that a step stays one line.

    Evaluation reports its numbers after the step has been written down; they belong on the same line.
    """

    def __init__(self, path: Path, resume_after: int | None = None) -> None:
        """Start an empty file, or keep the rows of an earlier run up to and with step `resume_after`."""
        self.rows: list[dict[str, float]] = []
        self._last_line = 0  # byte offset where the newest row starts
        resumes = resume_after is not None and path.exists()
        self._file = path.open("r+b" if resumes else "w+b")
        end = 0
        for line in self._file:
            row = _decode(line)
            if row is None:
                logger.warning("%s: line %d cannot be read; the file is cut off before it", path, len(self.rows) + 1)
            if row is None or row["step"] > (resume_after or 0):  # steps after the checkpoint are repeated
                break
            self.rows.append(row)
            self._last_line, end = end, end + len(line)
        self._file.seek(end)
        self._file.truncate()

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        """Raises ValueError for a step before the newest one."""
        newest = int(self.rows[-1]["step"]) if self.rows else -1
        if step < newest:
            raise ValueError(f"metrics of step {step} after those of step {newest}")
        if step == newest:
            self.rows[-1] |= metrics
            self._file.seek(self._last_line)
            self._file.truncate()
        else:
            self.rows.append({"step": step, **metrics})
        self._append(self.rows[-1])
        self._file.flush()

    def _append(self, row: Mapping[str, float]) -> None:
        self._last_line = self._file.seek(0, os.SEEK_END)
        self._file.write(encode(row).encode() + b"\n")

    def close(self) -> None:
        self._file.close()

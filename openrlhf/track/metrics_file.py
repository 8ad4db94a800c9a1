"""metrics.jsonl: one JSON object per step, on disk as soon as the step is over."""

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path


def encode(row: Mapping[str, float]) -> str:
    """One line of strict JSON. NaN and infinities, which JSON lacks, become null."""
    return json.dumps({name: value if math.isfinite(value) else None for name, value in row.items()}, allow_nan=False)


def read_rows(path: Path) -> list[dict[str, float | None]]:
    """The rows of a metrics file. Values logged as NaN or infinity are None."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


class MetricsFile:
    """Appends rows; a second row of the same step joins the first one, so that a step stays one line.

    Evaluation reports its numbers after the step has been written down; they belong on the same line.
    """

    def __init__(self, path: Path, resume_after: int | None = None) -> None:
        """Start an empty file, or keep the rows of an earlier run up to and with step `resume_after`."""
        self.rows: list[dict[str, float]] = []
        if resume_after is not None and path.exists():
            # Steps after the checkpoint are repeated by the resumed run.
            for kept in read_rows(path):
                row = {name: math.nan if value is None else value for name, value in kept.items()}
                if row["step"] <= resume_after:
                    self.rows.append(row)
        self._file = path.open("w+b")
        self._last_line = 0  # byte offset where the newest row starts
        for row in self.rows:
            self._append(row)
        self._file.flush()

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

"""What the report shows of one run, read from its folder."""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from openrlhf.track.errors import TrackError
from openrlhf.track.metrics_file import read_rows

Pieces = Callable[[Sequence[int]], list[str]]  # token ids -> the text of each


@dataclass(frozen=True, slots=True)
class RunData:
    """One run. Rows and samples are plain JSON values."""

    name: str
    rows: list[dict[str, float | None]]  # metrics.jsonl
    samples: list[dict[str, Any]] = field(default_factory=list)  # rollouts/*.jsonl, every token with its text

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def read_run(folder: Path, name: str, pieces: Pieces | None, max_samples: int) -> RunData:
    """Read `folder`.

    Args:
        pieces: gives each token its text; None: tokens are shown by their ids.
        max_samples: stored samples to show, spread over all steps.

    Raises:
        TrackError: there is no metrics.jsonl, or a line of the folder's files is not JSON.
    """
    metrics = folder / "metrics.jsonl"
    if not metrics.is_file():
        raise TrackError(f"{folder}: holds no metrics.jsonl, so it is not the folder of a run")
    try:
        rows = read_rows(metrics)
        samples = [json.loads(line) for path in _spread(folder, max_samples) for line in path.open(encoding="utf-8")]
    except ValueError as error:
        raise TrackError(f"{folder}: a line of its metrics or rollouts is not JSON ({error})") from error
    for sample in samples:
        for segment in sample["segments"]:
            ids = segment["token_ids"]
            segment["pieces"] = [str(token_id) for token_id in ids] if pieces is None else pieces(ids)
    return RunData(name, rows, samples)


def _spread(folder: Path, max_samples: int) -> list[Path]:
    """The files of the stored steps; if they hold too much, every second, third, ... of them, the last one always."""
    files = sorted((folder / "rollouts").glob("step_*.jsonl"))
    if not files or max_samples < 1:
        return []
    per_file = max(1, sum(1 for _ in files[0].open(encoding="utf-8")))
    stride = -(-len(files) * per_file // max_samples)
    return files[::-1][:: max(1, stride)][::-1]


def unique_names(folders: Sequence[Path]) -> list[str]:
    """The shortest trailing parts of the paths that tell them apart."""
    resolved = [folder.resolve() for folder in folders]
    for length in range(1, max(len(path.parts) for path in resolved) + 1):
        names = ["/".join(path.parts[-length:]) for path in resolved]
        if len(set(names)) == len(names):
            return names
    return [f"{path.name} ({number})" for number, path in enumerate(resolved, 1)]

"""What the report shows of one run, read from its folder.

A run that was killed while it wrote leaves half a line, and a disk that filled up or broke a file cut off. Such lines
are left out and named on the page; they never cost the rest.
"""

import gzip
import json
import math
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

from openrlhf.track.errors import TrackError
from openrlhf.track.report.thumbnails import thumbnail
from openrlhf.track.rollout_file import rollout_files
from openrlhf.track.rollout_store import IMAGES

Pieces = Callable[[Sequence[int]], list[str]]  # token ids -> the text of each

_STREAMS = ("action_mask", "loss_mask", "logprobs", "policy_versions")
_ADDED_STREAMS = ("advantages", "train_logprobs", "ref_logprobs", "values")  # by training
_DIGITS = 6  # of a metric, as many as a chart can show
MOST_TOKENS = 1_000_000  # of a run's samples on the page: about 50 bytes each


@dataclass(frozen=True, slots=True)
class RunData:
    """One run."""

    name: str
    rows: list[dict[str, float | None]]  # metrics.jsonl
    samples: list[dict[str, Any]] = field(default_factory=list)  # rollouts/, every token with its text
    images: dict[str, str] = field(default_factory=dict)  # by name, as data addresses: samples of a prompt share theirs
    notes: list[str] = field(default_factory=list)  # what could not be shown

    def to_json(self) -> dict[str, Any]:
        """Metrics by name, each with a value or null per step: a name is written once, not once per step."""
        names = dict.fromkeys(name for row in self.rows for name in row if name != "step")
        return {
            "name": self.name,
            "steps": [row["step"] for row in self.rows],
            "metrics": {name: [_rounded(row.get(name)) for row in self.rows] for name in names},
            "samples": self.samples,
            "images": self.images,
            "notes": self.notes,
        }


def check_is_run(folder: Path) -> None:
    """TrackError if there is no metrics.jsonl, so that this is not the folder of a run."""
    if not (folder / "metrics.jsonl").is_file():
        raise TrackError(f"{folder}: holds no metrics.jsonl, so it is not the folder of a run")


def read_run(folder: Path, name: str, pieces: Pieces | None, max_samples: int) -> RunData:
    """Read `folder`.

    Args:
        pieces: gives each token its text; None: tokens are shown by their ids.
        max_samples: stored samples to show, spread over all steps.

    Raises:
        TrackError: as `check_is_run`.
    """
    check_is_run(folder)
    notes: list[str] = []
    rows = [row for row in _objects(folder / "metrics.jsonl", notes) if _is_number(row.get("step"))]
    rows.sort(key=lambda row: row["step"])
    samples = _samples(_spread(folder, max_samples), max_samples, notes)
    segments = [segment for sample in samples for segment in sample["segments"]]
    for segment in segments:
        ids = segment["token_ids"]
        segment["pieces"] = [str(token_id) for token_id in ids] if pieces is None else pieces(ids)
    shown_images = dict.fromkeys(image for segment in segments for image in segment["images"])
    made = {image: thumbnail(folder / "rollouts" / IMAGES, image) for image in shown_images}
    images = {image: address for image, address in made.items() if address is not None}
    return RunData(name, rows, samples, images, notes)


def _samples(files: Sequence[Path], max_samples: int, notes: list[str]) -> list[dict[str, Any]]:
    """The samples of the files, of each the first ones where all would be too many; notes say what is left out."""
    samples: list[dict[str, Any]] = []
    quota = max(1, max_samples // max(1, len(files)))
    tokens = 0
    for path in files:
        found = list(_objects(path, notes))
        whole = [sample for sample in map(_sample, found) if sample is not None]
        if len(whole) < len(found):
            notes.append(f"{path.name}: {len(found) - len(whole)} of {len(found)} samples are incomplete")
        if len(whole) > quota:
            notes.append(f"{path.name}: {quota} of {len(whole)} samples are shown (--max_samples {max_samples})")
        for sample in whole[:quota]:
            tokens += sum(len(segment["token_ids"]) for segment in sample["segments"])
            if tokens > MOST_TOKENS:
                notes.append(f"{path.name}: samples from here on are not shown, for a page holds {MOST_TOKENS} tokens")
                return samples
            samples.append(sample)
    return samples


def _objects(path: Path, notes: list[str]) -> Iterator[dict[str, Any]]:
    """The JSON objects of a file, one a line; a note says how many lines are none."""
    broken = 0
    for line in _lines(path, notes):
        try:
            value = json.loads(line, parse_constant=lambda _: None)
        except ValueError:
            value = None
        if isinstance(value, dict):
            yield value
        elif line.strip():
            broken += 1
    if broken:
        notes.append(f"{path.name}: {broken} line{'s' * (broken > 1)} could not be read")


def _lines(path: Path, notes: list[str]) -> Iterator[str]:
    """The lines of a file, compressed or not; of one that is damaged those before the damage, and a note."""
    try:
        with _text(path) as lines:
            yield from lines
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        notes.append(f"{path.name}: damaged, its end could not be read ({error})")


def _text(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", errors="replace")
    return path.open(encoding="utf-8", errors="replace")


def _sample(row: dict[str, Any]) -> dict[str, Any] | None:
    """What the page shows of a stored sample; None if its tokens are not all there."""
    stored, extra_logs = row.get("segments") or [], row.get("extra_logs") or {}
    if not isinstance(stored, list) or not isinstance(extra_logs, dict) or not _is_number(row.get("step")):
        return None
    segments = [_segment(each) for each in stored]
    if None in segments:
        return None
    return {
        "step": row["step"],
        "sample_id": str(row.get("sample_id", "")),
        "label": str(row.get("label") or ""),
        "reason": str(row.get("reason") or ""),
        "status": str(row.get("status", "")),
        "truncated": bool(row.get("truncated")),
        **{name: _rounded(row.get(name)) for name in ("reward", "shaped_reward", "score")},
        "extra_logs": {str(name): _rounded(value) for name, value in extra_logs.items()},
        "segments": segments,
    }


def _segment(segment: Any) -> dict[str, Any] | None:
    """Its tokens and what belongs to each; None unless all of it has one value per token."""
    if not isinstance(segment, dict):
        return None
    names = ["token_ids", *_STREAMS, *(name for name in _ADDED_STREAMS if name in segment)]
    streams = {name: segment.get(name) for name in names}
    if not all(isinstance(stream, list) for stream in streams.values()):
        return None
    if len({len(stream) for stream in streams.values()}) != 1:  # type: ignore[arg-type]
        return None
    images = segment.get("images")
    return streams | {"images": [str(name) for name in images] if isinstance(images, list) else []}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _rounded(value: Any) -> float | None:
    if not _is_number(value):
        return None
    return value if isinstance(value, int) else float(f"{value:.{_DIGITS}g}")


def _spread(folder: Path, max_samples: int) -> list[Path]:
    """The files of the stored steps; if they hold too much, every second, third, ... of them, the last one always."""
    files = list(rollout_files(folder / "rollouts").values())
    if not files or max_samples < 1:
        return []
    per_file = max(1, sum(1 for _ in _lines(files[0], [])))
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

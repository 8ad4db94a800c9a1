"""rollouts/step_000001.jsonl.gz: one JSON object per line, compressed; there as a whole or not at all.

    for sample in stored_samples(RUN / "rollouts"):
        print(sample["step"], sample["reward"], sample["response"])

Other programs read it as it is: `zcat`, `pandas.read_json(path, lines=True)`, `datasets.load_dataset("json", ...)`.
"""

import gzip
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

_NAME = re.compile(r"step_(\d+)\.jsonl\.gz")
_LEVEL = 6  # 9 takes several times as long for a few per cent


def rollout_file(folder: Path, step: int) -> Path:
    """The file of one step."""
    return folder / f"step_{step:06d}.jsonl.gz"


def rollout_files(folder: Path) -> dict[int, Path]:
    """The file of every step that is stored, in the order of the steps."""
    found = {int(name[1]): path for path in folder.glob("step_*") if (name := _NAME.fullmatch(path.name))}
    return dict(sorted(found.items()))


def write_samples(path: Path, samples: Iterable[Mapping[str, Any]]) -> None:
    """Write the file of a step.

    The same samples give the same bytes: the time that gzip would note is left out.
    """
    text = "".join(json.dumps(sample, allow_nan=False) + "\n" for sample in samples)
    write_whole(path, gzip.compress(text.encode(), compresslevel=_LEVEL, mtime=0))


def write_whole(path: Path, data: bytes) -> None:
    """Write a file under a hidden name and rename it: a process that is killed meanwhile leaves no half file."""
    hidden = path.with_name(f".{path.name}")
    try:
        with hidden.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        hidden.replace(path)
    finally:
        hidden.unlink(missing_ok=True)


def read_samples(path: Path) -> list[dict[str, Any]]:
    """The samples of a step. Raises OSError or EOFError for a damaged file, ValueError for one of other content."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def stored_samples(folder: Path) -> Iterator[dict[str, Any]]:
    """The samples of all steps, in the order of the steps. Errors as of `read_samples`."""
    for path in rollout_files(folder).values():
        yield from read_samples(path)

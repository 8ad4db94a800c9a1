"""Where the data of an example goes: two files of rows, in the folder that the command names."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path


def chosen_folder(default: Path) -> Path:
    """The first argument of the command, else `default`."""
    return Path(sys.argv[1]) if len(sys.argv) > 1 else default


def write_splits(folder: Path, train: Sequence[dict], test: Sequence[dict]) -> None:
    """Write train.jsonl and test.jsonl, one row a line, and say so."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in (("train.jsonl", train), ("test.jsonl", test)):
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        print(f"{folder / name}: {len(rows)} rows")

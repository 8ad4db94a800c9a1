"""Keeping what a long proof printed: `make test-all` sets KEEP_PROOFS, and the files go to docs/proofs/."""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

PROOFS = Path(__file__).resolve().parents[1] / "docs" / "proofs"


def keep(name: str, files: Sequence[Path]) -> None:
    """Copy `files` to docs/proofs/`name`, in place of what an earlier run left there; nothing unless KEEP_PROOFS."""
    if not os.environ.get("KEEP_PROOFS"):
        return
    folder = PROOFS / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for file in files:
        shutil.copy(file, folder / file.name)

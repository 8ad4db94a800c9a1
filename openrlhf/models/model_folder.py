"""A Hugging Face model folder that is whole or not there, among other files."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_HIDDEN = ".writing_model"
_LAST = "config.json"  # what makes a folder a model's
_WEIGHTS = ("*.safetensors", "*.safetensors.index.json")


@contextmanager
def model_folder(folder: Path | str) -> Iterator[Path]:
    """Write a model to the hidden folder that this yields: its files move up to `folder` when the block ends.

    They take the place of an earlier model's, whose weights all go: shards beside a single file would be two models. A
    block that fails, or whose process is killed, leaves `folder` as it was, but for the hidden folder, which the next
    one removes.
    """
    final = Path(folder)
    hidden = final / _HIDDEN
    shutil.rmtree(hidden, ignore_errors=True)
    hidden.mkdir(parents=True)
    try:
        yield hidden
        _move_up(hidden, final)
    finally:
        shutil.rmtree(hidden, ignore_errors=True)


def _move_up(hidden: Path, final: Path) -> None:
    """Without the file that makes it a model's the folder passes for none, until the last file is there."""
    (final / _LAST).unlink(missing_ok=True)
    for weights in (path for pattern in _WEIGHTS for path in final.glob(pattern)):
        weights.unlink()
    for path in sorted(hidden.iterdir(), key=lambda path: (path.name == _LAST, path.name)):
        place = final / path.name
        if path.is_dir() and place.is_dir():  # a folder takes the place of an empty one only
            shutil.rmtree(place)
        path.replace(place)

"""The checkpoints of a run on disk: complete or not there at all, rotated, the newest and the best always kept.

    CHECKPOINTS/global_step6/checkpoint.json   step, metric, bytes; a folder without it is no checkpoint
    CHECKPOINTS/global_step6/...               what the caller wrote
    CHECKPOINTS/latest, best                   links, for people; nothing here reads them

A checkpoint is written under a hidden name and renamed when every byte is on the disk, and one that leaves is hidden
before its first byte goes: a process killed meanwhile leaves whole checkpoints, and a hidden folder that the next save
removes.
"""

import json
import logging
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import count
from pathlib import Path

_ABOUT = "checkpoint.json"
_HIDDEN = ".writing_"
_PREFIX = "global_step"
GIGABYTE = 1e9
logger = logging.getLogger(__name__)


class CheckpointError(Exception):
    """A checkpoint could not be written or read; the message is one line that names it and what is left."""


@dataclass(frozen=True, slots=True)
class Metric:
    """What an evaluation of a checkpoint's very weights gave. Only metrics of one name are compared."""

    name: str
    value: float


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """One complete checkpoint."""

    folder: Path
    step: int
    metric: Metric | None  # None: not evaluated
    size: int  # bytes

    def value(self, name: str | None) -> float | None:
        """Of the metric of that name; None: it was not evaluated by it."""
        return self.metric.value if self.metric is not None and self.metric.name == name else None


class CheckpointStore:
    """The folder that `ckpt.path` names.

    Args:
        max_num: checkpoints to keep, at least 1.
        max_gb: their size together, in units of 1e9 bytes.
    """

    def __init__(self, root: Path, max_num: int, max_gb: float) -> None:
        self.root = root
        self._max_num, self._max_bytes = max_num, max_gb * GIGABYTE

    def all(self) -> list[Checkpoint]:
        """The complete checkpoints, oldest first.

        Raises:
            CheckpointError: a checkpoint's description cannot be read.
        """
        return sorted((_read(about) for about in self.root.glob(f"{_PREFIX}*/{_ABOUT}")), key=lambda found: found.step)

    def latest(self) -> Checkpoint | None:
        """The one with the highest step; None where there is none, or no folder at all."""
        return max(self.all(), key=lambda found: found.step, default=None)

    def metric_name(self) -> str | None:
        """The metric of the newest evaluated one: where a resumed run is evaluated by another metric than before, that
        one counts from its first evaluation on. None where none was evaluated."""
        return next((found.metric.name for found in reversed(self.all()) if found.metric is not None), None)

    def best(self) -> Checkpoint | None:
        """The one with the highest value of `metric_name()`, the newer of equals; None where none was evaluated."""
        name = self.metric_name()
        rated = [(value, found.step, found) for found in self.all() if (value := found.value(name)) is not None]
        return max(rated, key=lambda entry: entry[:2])[2] if rated else None

    def clear(self) -> None:
        """Remove every checkpoint."""
        for found in self.all():
            _remove(found.folder)

    @contextmanager
    def writing(self, step: int, metric: Metric | None) -> Iterator[Path]:
        """Fill the folder that this yields; it becomes the checkpoint of `step` when the block ends without an error.

        Raises:
            CheckpointError: the disk refused; earlier checkpoints are untouched.
        """
        hidden, final = self.root / f"{_HIDDEN}{_PREFIX}{step}", self.root / f"{_PREFIX}{step}"
        try:
            self._clear_unfinished()
            hidden.mkdir(parents=True)
            yield hidden
            (hidden / _ABOUT).write_text(_described(step, metric, _size(hidden)))
            _flush(hidden)
            replaced = _put_in_place(hidden, final)
            _sync(self.root)  # the new name is on the disk before an older checkpoint leaves it
        except OSError as error:
            raise CheckpointError(f"checkpoint of step {step} in {self.root}: {error}; {self._remains()}") from error
        finally:
            shutil.rmtree(hidden, ignore_errors=True)
        with self._saved_all_the_same(step):
            if replaced is not None:
                shutil.rmtree(replaced)
        with self._saved_all_the_same(step):
            self._rotate()
        with self._saved_all_the_same(step):
            self._link()

    def rate(self, step: int, metric: Metric) -> None:
        """The checkpoint of `step` was evaluated after it had been saved; nothing else of it changes.

        Raises:
            CheckpointError: the disk refused.
        """
        (found,) = (found for found in self.all() if found.step == step)
        fresh = found.folder / f"{_HIDDEN}{_ABOUT}"
        try:
            fresh.write_text(_described(step, metric, found.size))
            fresh.replace(found.folder / _ABOUT)
        except OSError as error:
            raise CheckpointError(f"checkpoint of step {step} in {self.root}: {error}; {self._remains()}") from error
        with self._saved_all_the_same(step):
            self._link()

    def _rotate(self) -> None:
        """Remove what is too much: never the newest or the best; first those without a metric, then the lowest, then
        the oldest."""
        kept, name = self.all(), self.metric_name()
        newest, best = self.latest(), self.best()

        def worth(found: Checkpoint) -> tuple[bool, float, int]:
            value = found.value(name)
            return value is not None, value or 0.0, found.step

        spare = sorted((found for found in kept if found not in (newest, best)), key=worth)
        for found in spare:
            if len(kept) <= self._max_num and sum(other.size for other in kept) <= self._max_bytes:
                return
            _remove(found.folder)
            kept.remove(found)

    @contextmanager
    def _saved_all_the_same(self, step: int) -> Iterator[None]:
        """What the disk refuses here costs no checkpoint, so it is only said."""
        try:
            yield
        except OSError as error:
            logger.warning(
                "checkpoint of step %d is saved in %s, but older ones or the links could not be changed: %s",
                step,
                self.root,
                error,
            )

    def _link(self) -> None:
        for name, found in (("latest", self.latest()), ("best", self.best())):
            if found is None:
                continue
            fresh = self.root / f".{name}"
            fresh.unlink(missing_ok=True)
            fresh.symlink_to(found.folder.name)
            fresh.replace(self.root / name)

    def _clear_unfinished(self) -> None:
        for folder in self.root.glob(f"{_HIDDEN}*"):
            shutil.rmtree(folder, ignore_errors=True)  # what stays is in nobody's way, but for one of the same name

    def _remains(self) -> str:
        latest = self.latest()
        return "there is no earlier one" if latest is None else f"the checkpoint of step {latest.step} is kept"


def _described(step: int, metric: Metric | None, size: int) -> str:
    return json.dumps({"step": step, "metric": None if metric is None else asdict(metric), "size": size})


def _read(about: Path) -> Checkpoint:
    try:
        state = json.loads(about.read_text())
        metric = None if state["metric"] is None else Metric(**state["metric"])
        return Checkpoint(about.parent, int(state["step"]), metric, int(state["size"]))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{about}: not the description of a checkpoint ({error}); remove its folder") from error


def _put_in_place(fresh: Path, final: Path) -> Path | None:
    """Give a whole checkpoint its name. Where an older one has it (the run went back to an earlier step and came here
    again), answer the older one's new place; where the disk refuses, the older one keeps the name."""
    if not final.exists():
        fresh.rename(final)
        return None
    old = _hide(final)
    try:
        fresh.rename(final)
    except OSError:
        old.rename(final)
        raise
    return old


def _remove(folder: Path) -> None:
    """Hidden first: of a removal that is cut off nothing is left that passes for a checkpoint."""
    shutil.rmtree(_hide(folder))


def _hide(folder: Path) -> Path:
    """Rename it; its new name is one that no removal has left behind that could not be finished."""
    names = (f"{_HIDDEN}old_{folder.name}{f'_{number}' if number else ''}" for number in count())
    hidden = next(place for name in names if not (place := folder.with_name(name)).exists())
    return folder.rename(hidden)


def _size(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*"))


def _flush(folder: Path) -> None:
    """Wait until everything below the folder is on the disk, names included."""
    for path in (*folder.rglob("*"), folder):
        _sync(path)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

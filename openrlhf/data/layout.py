"""Which files of a folder belong to which split."""

import logging
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from openrlhf.data.errors import DataError, listing

logger = logging.getLogger(__name__)

FORMATS = (".json", ".jsonl", ".csv", ".parquet", ".arrow")
_METADATA = ("dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json")
_SAME_SPLIT = (
    ("train", "training"),
    ("validation", "valid", "val", "dev"),
    ("test", "testing"),
    ("eval", "evaluation"),
)
_TRAINING = frozenset(_SAME_SPLIT[0])
_KEYWORDS = frozenset(word for group in _SAME_SPLIT for word in group)
_SHARD = re.compile(r"(?P<split>\w[\w.]*)-\d{5}-of-\d{5}")
_NUMBERED = re.compile(r"(?P<name>.*-)(?P<number>\d{5})-of-(?P<total>\d{5})(?:-[0-9a-f]{16})?")  # the hub adds a hash
_HUMPS = re.compile(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")  # mathTest, MATHTest
_AROUND = ("set", "data", "split")  # said before or after a split: testset, traindata


def is_saved_to_disk(folder: Path) -> bool:
    """Whether `save_to_disk` wrote this folder."""
    single = all((folder / name).is_file() for name in ("state.json", "dataset_info.json"))
    return single or (folder / "dataset_dict.json").is_file()


def split_word(text: str) -> str | None:
    """The split that a file or folder name speaks of: `math_test` is test, `train-00000-of-00002` is train."""
    shard = _SHARD.fullmatch(text)
    spoken = [word for word in re.split(r"[^a-z]+", text.lower()) if word in _KEYWORDS]
    return spoken[0] if spoken else shard["split"] if shard else None


def compound_word(text: str) -> str | None:
    """The split inside a word of its own: `mathTest` and `testset` are test. `HumanEval` would be eval."""
    words = re.split(r"[^a-z]+", _HUMPS.sub(" ", text).lower())
    bare = (word.removeprefix(around).removesuffix(around) for word in words for around in ("", *_AROUND))
    return next((word for word in bare if word in _KEYWORDS), None)


def folder_splits(folder: Path) -> dict[str, list[Path]]:
    """Data files of a folder (and of the folders in it) by split, sorted by path.

    A file belongs to the split in its name, else to the one in the nearest folder's name; names like `testset` count
    where all others have one too and some are for training. Where no name speaks of a split, all files are `train`;
    where some do, the others belong to no split. Either is said in a warning.
    DataError if there are no data files, or if one split lies there in two formats (its rows would count twice).
    """
    files = [path for path in sorted(folder.rglob("*")) if _is_data(path, folder)]
    if not files:
        existing = listing(sorted(path.name for path in folder.iterdir()))
        raise DataError(f"{folder}: no data files ({', '.join(FORMATS)}) in this folder; it holds {existing}")
    splits: dict[str, list[Path]] = {}
    words = _words(folder, files)
    for path, word in words.items():
        if word is not None:
            splits.setdefault(word, []).append(path)
    _warn_of_unnamed(folder, [path for path, word in words.items() if word is None], list(splits))
    splits = splits or {"train": files}
    for name, paths in splits.items():
        if len({path.suffix for path in paths}) > 1:
            shown = listing([str(path.relative_to(folder)) for path in paths])
            raise DataError(f"{folder}: split {name!r} exists in several formats ({shown}); name one file or folder")
    return splits


def _words(folder: Path, files: Sequence[Path]) -> dict[Path, str | None]:
    """What each file's own name, or the nearest folder's, says of its split."""
    names = {
        path: [path.stem, *(parent.name for parent in path.relative_to(folder).parents if parent.name)]
        for path in files
    }
    exact = {path: _first(map(split_word, names[path])) for path in files}
    guessed = {path: word or _first(map(compound_word, names[path])) for path, word in exact.items()}
    sure = None not in guessed.values() and not _TRAINING.isdisjoint(guessed.values())
    return guessed if sure else exact


def _first(words: Iterable[str | None]) -> str | None:
    return next((word for word in words if word is not None), None)


def _warn_of_unnamed(folder: Path, files: Sequence[Path], splits: Sequence[str]) -> None:
    """Files that name no split may be another split under a name of its own (`holdout`): say what happens to them."""
    shown = listing([str(path.relative_to(folder)) for path in files])
    if splits and files:
        logger.warning("%s: the names of %s speak of no split, so these files are not read", folder, shown)
    elif len(files) > 1:
        logger.warning("%s: no name speaks of a split, so all of these files are train: %s", folder, shown)


def require_whole(folder: Path, split: str, paths: Sequence[Path]) -> None:
    """DataError where files are numbered `-00000-of-00003` and some of the numbers are not there."""
    numbers: dict[tuple[Path, str, int], set[int]] = {}
    for path in paths:
        if found := _NUMBERED.fullmatch(path.stem):
            numbers.setdefault((path.parent, found["name"], int(found["total"])), set()).add(int(found["number"]))
    for (parent, name, total), present in numbers.items():
        first = int(0 not in present and total in present)  # some count from 1
        if missing := sorted(set(range(first, first + total)) - present):
            where = (parent / name).relative_to(folder)
            shown = listing([f"{number:05}" for number in missing])
            raise DataError(f"{folder}: split {split!r} lacks {where}... {shown} of {total:05}; fetch what is missing")


def choose_split(available: Iterable[str], name: str, source: str) -> str:
    """The available split that `name` means: itself, or its only synonym (val for validation).

    DataError naming the split and what exists; there is no fallback to another split.
    """
    names = list(available)
    if name in names:
        return name
    synonyms: Sequence[str] = next((group for group in _SAME_SPLIT if name in group), ())
    meant = [other for other in names if other in synonyms]
    if len(meant) == 1:
        return meant[0]
    raise DataError(f"{source}: no split {name!r}; it has {listing(names)}")


def _is_data(path: Path, folder: Path) -> bool:
    hidden = any(part.startswith((".", "_")) for part in path.relative_to(folder).parts)
    return path.suffix in FORMATS and path.name not in _METADATA and not hidden and path.is_file()

"""Which files of a folder belong to which split."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from openrlhf.data.errors import DataError, listing

FORMATS = (".json", ".jsonl", ".csv", ".parquet", ".arrow")
_METADATA = ("dataset_info.json", "dataset_infos.json", "dataset_dict.json", "state.json")
_SAME_SPLIT = (
    ("train", "training"),
    ("validation", "valid", "val", "dev"),
    ("test", "testing"),
    ("eval", "evaluation"),
)
_KEYWORDS = frozenset(word for group in _SAME_SPLIT for word in group)
_SHARD = re.compile(r"(?P<split>\w[\w.]*)-\d{5}-of-\d{5}")


def is_saved_to_disk(folder: Path) -> bool:
    """Whether `save_to_disk` wrote this folder."""
    single = all((folder / name).is_file() for name in ("state.json", "dataset_info.json"))
    return single or (folder / "dataset_dict.json").is_file()


def split_word(text: str) -> str | None:
    """The split that a file or folder name speaks of: `math_test` is test, `train-00000-of-00002` is train."""
    shard = _SHARD.fullmatch(text)
    words = [word for word in re.split(r"[^a-z]+", text.lower()) if word in _KEYWORDS]
    return words[0] if words else shard["split"] if shard else None


def folder_splits(folder: Path) -> dict[str, list[Path]]:
    """Data files of a folder (and of the folders in it) by split, sorted by path.

    A file belongs to the split in its name, else to the one in the nearest folder's name. Where no name speaks of a
    split, all files are `train`; where some do, the others belong to no split.
    DataError if there are no data files, or if one split lies there in two formats (its rows would count twice).
    """
    files = [path for path in sorted(folder.rglob("*")) if _is_data(path, folder)]
    if not files:
        existing = listing(sorted(path.name for path in folder.iterdir()))
        raise DataError(f"{folder}: no data files ({', '.join(FORMATS)}) in this folder; it holds {existing}")
    splits: dict[str, list[Path]] = {}
    for path in files:
        names = [path.stem, *(parent.name for parent in path.relative_to(folder).parents if parent.name)]
        word = next((word for word in map(split_word, names) if word is not None), None)
        if word is not None:
            splits.setdefault(word, []).append(path)
    splits = splits or {"train": files}
    for name, paths in splits.items():
        if len({path.suffix for path in paths}) > 1:
            shown = listing([str(path.relative_to(folder)) for path in paths])
            raise DataError(f"{folder}: split {name!r} exists in several formats ({shown}); name one file or folder")
    return splits


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

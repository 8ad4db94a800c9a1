"""Files and folders on this machine, as splits that are read when asked for."""

from collections.abc import Callable, Mapping, Set
from functools import partial
from pathlib import Path

from openrlhf.config.disk import exists, unusable
from openrlhf.data.arrow_reader import dataset_table, open_saved, read_arrow, read_parquet
from openrlhf.data.csv_reader import read_csv
from openrlhf.data.errors import DataError, listing
from openrlhf.data.json_reader import read_json
from openrlhf.data.layout import FORMATS, folder_splits, is_saved_to_disk, require_whole, split_word
from openrlhf.data.rows import Table, join
from openrlhf.faults import first_line

Reader = Callable[[Path, Set[str]], Table]
SplitReader = Callable[[Set[str]], Table]

READERS: Mapping[str, Reader] = {
    ".json": read_json,
    ".jsonl": read_json,
    ".csv": read_csv,
    ".parquet": read_parquet,
    ".arrow": read_arrow,
}


def looks_local(name: str) -> bool:
    """Whether a name that does not exist here must still be meant as a path, so that no network is asked for it."""
    return (
        name.startswith((".", "/", "~"))
        or "\\" in name
        or name.count("/") > 1
        or unusable(name) is not None
        or Path(name).suffix.lower() in (*FORMATS, ".txt", ".tsv", ".gz", ".zip", ".zst", ".tar")
        or ("/" in name and Path(name).parts[0] != name and Path(Path(name).parts[0]).is_dir())
    )


def local_splits(path: Path) -> Mapping[str, SplitReader]:
    """The splits of a file or folder. A single file is `train`, and also the split that its name speaks of.

    DataError if the path does not exist (with what lies beside it) or is of no known format.
    """
    if not exists(path):
        raise DataError(f"{path}: no such file or folder; {unusable(str(path)) or _neighbours(path)}")
    if path.is_dir():
        if is_saved_to_disk(path):
            saved = open_saved(path)
            return {name: partial(dataset_table, data, f"{path}[{name}]") for name, data in saved.items()}
        return {name: partial(_read_split, path, name, files) for name, files in folder_splits(path).items()}
    read = partial(_read_files, str(path), [path])
    return {"train": read} | {word: read for word in [split_word(path.stem)] if word is not None}


def _read_split(folder: Path, split: str, files: list[Path], wanted: Set[str]) -> Table:
    require_whole(folder, split, files)
    return _read_files(str(folder), files, wanted)


def _read_files(name: str, files: list[Path], wanted: Set[str]) -> Table:
    return join(name, (_read_file(file, wanted) for file in files))


def _read_file(path: Path, wanted: Set[str]) -> Table:
    reader = READERS.get(path.suffix)
    if reader is None:
        raise DataError(f"{path}: unknown format {path.suffix!r}; expected one of {', '.join(FORMATS)}")
    try:
        return reader(path, wanted)
    except OSError as error:
        raise DataError(f"{path}: not readable: {first_line(error)}") from error


def _neighbours(path: Path) -> str:
    parent = next(folder for folder in path.absolute().parents if folder.is_dir())
    names = sorted(f"{entry.name}/" if entry.is_dir() else entry.name for entry in parent.iterdir())
    return f"{parent} holds {listing(names)}"

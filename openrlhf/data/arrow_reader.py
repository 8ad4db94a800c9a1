"""parquet, arrow and saved-to-disk data: typed columns. `datasets` is imported when first used, it is heavy."""

import dataclasses
from collections.abc import Iterator, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from openrlhf.data.errors import DataError
from openrlhf.data.rows import Row, Table
from openrlhf.faults import first_line

if TYPE_CHECKING:
    import datasets

_BATCH = 256  # rows that are turned into Python values at a time
_NARROW = {"float16": np.float16, "float32": np.float32}


def read_parquet(path: Path, wanted: Set[str]) -> Table:
    """Rows of one parquet file; an int column with nulls gives int and None. DataError if the file is no parquet."""
    import datasets
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            names = file.schema_arrow.names
            table = file.read(columns=[name for name in names if name in wanted] or names[:1])  # no column, no rows
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: not readable as parquet: {first_line(error)}") from error
    return Table(str(path), tuple(names), dataset_rows(datasets.Dataset(table), str(path), wanted))


def read_arrow(path: Path, wanted: Set[str]) -> Table:
    """Rows of one Arrow IPC file, in the stream or the file format. DataError if it is neither."""
    import datasets
    import pyarrow as pa

    try:
        with pa.memory_map(str(path)) as source:
            is_file_format = source.read(6) == b"ARROW1"
            source.seek(0)
            opened = pa.ipc.open_file(source) if is_file_format else pa.ipc.open_stream(source)
            table = opened.read_all()
            dataset = datasets.Dataset(table)
            return Table(str(path), tuple(table.column_names), dataset_rows(dataset, str(path), wanted))
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{path}: not readable as arrow: {first_line(error)}") from error


def open_saved(path: Path) -> "dict[str, datasets.Dataset]":
    """The splits of a folder written by `save_to_disk`; a single set is `train`, and also the split it was cut from."""
    import datasets

    try:
        saved = datasets.load_from_disk(str(path))
    except Exception as error:  # whatever the folder's broken metadata provokes; attributed to the folder
        raise DataError(f"{path}: not readable as a saved-to-disk folder: {first_line(error)}") from error
    if isinstance(saved, datasets.DatasetDict):
        return {str(name): dataset for name, dataset in saved.items()}
    return {"train": saved} | ({str(saved.split): saved} if saved.split is not None else {})


def dataset_table(dataset: "datasets.Dataset", name: str, wanted: Set[str]) -> Table:
    return Table(name, tuple(dataset.column_names), dataset_rows(dataset, name, wanted))


def dataset_rows(dataset: "datasets.Dataset", name: str, wanted: Set[str]) -> list[Row]:
    """Rows of a `datasets` object as plain Python values, reading only the wanted columns.

    An image stays `{"bytes": ..., "path": ...}`, for openrlhf/images.py to read: `datasets` would decode it here, where
    one that is broken ends in a traceback without its row.

    Raises DataError, naming the row, for a column of JSON that holds none.
    """
    kept = [column for column in dataset.column_names if column in wanted]
    if not kept:
        return [Row({}, name, number, "row") for number in range(1, len(dataset) + 1)]
    dtypes = {column: _dtype(dataset, column) for column in kept}
    narrow = {column: _NARROW[dtype] for column, dtype in dtypes.items() if dtype in _NARROW}
    rows = []
    for number, record in enumerate(_records(dataset.select_columns(kept), name), start=1):
        for column, dtype in narrow.items():
            if record[column] is not None:  # 0.1 in 32 bits would read 0.10000000149011612 in 64
                record[column] = float(str(dtype(record[column])))
        rows.append(Row(record, name, number, "row"))
    return rows


def _records(dataset: "datasets.Dataset", name: str) -> Iterator[dict[str, Any]]:
    import datasets

    features = datasets.Features({column: _undecoded(feature) for column, feature in dataset.features.items()})
    number = 0
    for batch in dataset.with_format("arrow").iter(_BATCH):
        for record in batch.to_pylist():
            number += 1
            try:
                yield features.decode_example(record)
            except Exception as error:  # of whichever JSON reader `datasets` uses
                raise DataError(f"{name}, row {number}: cannot be decoded: {first_line(error)}") from error


def _undecoded(feature: Any) -> Any:
    """The same type of a column, whose images are not decoded."""
    import datasets

    if isinstance(feature, datasets.Image):
        return dataclasses.replace(feature, decode=False)
    if isinstance(feature, datasets.List | datasets.LargeList):
        return dataclasses.replace(feature, feature=_undecoded(feature.feature))
    if isinstance(feature, dict):
        return {key: _undecoded(inner) for key, inner in feature.items()}
    return feature


def _dtype(dataset: "datasets.Dataset", column: str) -> str:
    import datasets

    feature: Any = dataset.features[column]
    return feature.dtype if isinstance(feature, datasets.Value) else ""

"""Columnar files: typed values keep their type."""

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from openrlhf.data.arrow_reader import dataset_rows, read_arrow, read_parquet
from openrlhf.data.errors import DataError
from openrlhf.data.local import local_splits

WANTED = frozenset({"q", "n", "f", "s", "m"})
TABLE = pa.table(
    {
        "q": ["a", "b", "c"],
        "n": pa.array([1, None, 2**60 + 1], pa.int64()),  # past 2**53: a detour over float64 would change it
        "f": pa.array([0.1, None, 2.0], pa.float32()),
        "s": pa.array(["007", "1", None]),
        "m": [[{"role": "user", "content": "x"}], [], None],
        "unread": [1, 2, 3],
    }
)
EXPECTED = [
    {"q": "a", "n": 1, "f": 0.1, "s": "007", "m": [{"role": "user", "content": "x"}]},
    {"q": "b", "n": None, "f": None, "s": "1", "m": []},
    {"q": "c", "n": 2**60 + 1, "f": 2.0, "s": None, "m": None},
]


def _parquet(tmp_path):
    pq.write_table(TABLE, tmp_path / "rows.parquet")
    return read_parquet(tmp_path / "rows.parquet", WANTED)


def _arrow_stream(tmp_path):
    with pa.OSFile(str(tmp_path / "rows.arrow"), "wb") as sink, pa.ipc.new_stream(sink, TABLE.schema) as writer:
        writer.write_table(TABLE)
    return read_arrow(tmp_path / "rows.arrow", WANTED)


def _arrow_file(tmp_path):
    with pa.OSFile(str(tmp_path / "rows.arrow"), "wb") as sink, pa.ipc.new_file(sink, TABLE.schema) as writer:
        writer.write_table(TABLE)
    return read_arrow(tmp_path / "rows.arrow", WANTED)


def _saved(tmp_path):
    datasets.Dataset(TABLE).save_to_disk(tmp_path / "saved")
    return local_splits(tmp_path / "saved")["train"](WANTED)


@pytest.mark.parametrize("read", [_parquet, _arrow_stream, _arrow_file, _saved])
def test_values_keep_their_type(tmp_path, read):
    table = read(tmp_path)
    assert table.columns == ("q", "n", "f", "s", "m", "unread")
    assert [dict(row.values) for row in table.rows] == EXPECTED
    assert type(table.rows[0].values["n"]) is int
    assert table.rows[2].where.endswith(", row 3")


def test_columns_of_json_are_still_read_and_broken_ones_name_their_row():
    features = datasets.Features({"q": datasets.Json(), "m": datasets.List(datasets.Json())})
    rows = {"q": [{"a": 1}, None], "m": [[{"a": 1}, {"b": [2]}], []]}
    table = dataset_rows(datasets.Dataset.from_dict(rows, features=features), "set", WANTED)
    assert [dict(row.values) for row in table] == [{"q": {"a": 1}, "m": [{"a": 1}, {"b": [2]}]}, {"q": None, "m": []}]
    storage = pa.ExtensionArray.from_storage(pa.json_(), pa.array(["{}", "{"]))
    broken = datasets.Dataset(pa.table({"q": storage}))
    with pytest.raises(DataError, match=r"^set, row 2: cannot be decoded: "):
        dataset_rows(broken, "set", WANTED)


def test_rows_that_were_chosen_or_shuffled_are_read_in_their_order():
    chosen = datasets.Dataset(TABLE).select([2, 0])
    assert [row.values["q"] for row in dataset_rows(chosen, "set", WANTED)] == ["c", "a"]
    many = datasets.Dataset.from_dict({"n": list(range(600))})
    assert [row.values["n"] for row in dataset_rows(many, "set", WANTED)] == list(range(600))


def test_a_table_without_any_wanted_column_still_counts_its_rows(tmp_path):
    pq.write_table(TABLE, tmp_path / "rows.parquet")
    table = read_parquet(tmp_path / "rows.parquet", frozenset({"other"}))
    assert [dict(row.values) for row in table.rows] == [{}, {}, {}]


@pytest.mark.parametrize(("name", "read"), [("rows.parquet", read_parquet), ("rows.arrow", read_arrow)])
@pytest.mark.parametrize("content", [b"", b"this is no columnar file, whatever its name says"])
def test_a_broken_file_is_named(tmp_path, name, read, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=rf"{name}: not readable as ") as caught:
        read(tmp_path / name, WANTED)
    assert "\n" not in str(caught.value)

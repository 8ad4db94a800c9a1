"""The split notation."""

import pytest

from openrlhf.data.errors import DataError
from openrlhf.data.split import parse_split


@pytest.mark.parametrize(
    ("text", "num_rows", "name", "rows"),
    [
        ("train", 300, "train", range(0, 300)),
        ("train[:1%]", 300, "train", range(0, 3)),
        ("train[:10]", 300, "train", range(0, 10)),
        ("train[5:]", 300, "train", range(5, 300)),
        ("[:10]", 300, "train", range(0, 10)),
        ("[5:]", 300, "train", range(5, 300)),
        ("test[10%:20%]", 50, "test", range(5, 10)),
        ("test[-10:]", 50, "test", range(40, 50)),
        ("test[-10%:]", 50, "test", range(45, 50)),
        ("my.split-2[3:3]", 50, "my.split-2", range(3, 3)),
        ("train[:1%]", 149, "train", range(0, 1)),  # 1.49 rows
        ("train[:1%]", 151, "train", range(0, 2)),  # 1.51 rows
    ],
)
def test_rows_of_a_part(text, num_rows, name, rows):
    (part,) = parse_split(text)
    assert part.name == name
    assert part.indices(num_rows) == rows


def test_thirds_by_percent_meet_without_gap_or_overlap():
    rows = [i for text in ("t[:33%]", "t[33%:66%]", "t[66%:]") for i in parse_split(text)[0].indices(101)]
    assert rows == list(range(101))


def test_parts_joined_by_plus():
    assert [str(part) for part in parse_split("train[:10] + test")] == ["train[:10]", "test"]


@pytest.mark.parametrize("text", ["", "train[", "train[:]x", "train[1]", "train[a:b]", "train+", "a b", "train[1.5%:]"])
def test_other_text_is_refused(text):
    with pytest.raises(DataError, match="is not understood"):
        parse_split(text)


@pytest.mark.parametrize("text", ["train[:11]", "train[-11:]", "train[:101%]", "train[12:]"])
def test_rows_that_do_not_exist_are_refused(text):
    with pytest.raises(DataError, match="outside the 10 rows"):
        parse_split(text)[0].indices(10)

"""csv: text stays text."""

import pytest

from openrlhf.data.csv_reader import read_csv
from openrlhf.data.errors import DataError


def _read(tmp_path, content):
    path = tmp_path / "rows.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_csv(path, frozenset({"q", "label"}))


def test_values_stay_the_text_they_are(tmp_path):
    table = _read(tmp_path, "q,label,x\na,007,1\nb,2.50,2\nc,,3\nd,true,4\n")
    assert table.columns == ("q", "label", "x")
    assert [row.values["label"] for row in table.rows] == ["007", "2.50", "", "true"]
    assert dict(table.rows[0].values) == {"q": "a", "label": "007"}


def test_quotes_commas_newlines_bom_and_crlf(tmp_path):
    table = _read(tmp_path, b'\xef\xbb\xbfq,label\r\n"one, ""two""\r\nthree",x\r\n\r\nlast,y\r\n')
    assert [row.values["q"] for row in table.rows] == ['one, "two"\r\nthree', "last"]
    # The first record spans lines 2 and 3, line 4 is blank.
    assert [row.number for row in table.rows] == [2, 5]


def test_a_cell_may_be_longer_than_the_modules_default_limit(tmp_path):
    assert _read(tmp_path, "q\n" + "x" * 200_000).rows[0].values["q"] == "x" * 200_000


@pytest.mark.parametrize(
    ("content", "line", "says"),
    [
        ("q,label\na,1\nb\n", 3, "1 cells, but the header has 2"),
        ("q,label\na,1,2\n", 2, "3 cells"),
        ("q,q\na,1\n", 1, "twice: q"),
        ('q,label\na,"b"c\n', 2, "not csv"),
        ('q,label\na,"b\n', 2, "not csv"),
        (b"q,label\na,\xff\n", 2, "not UTF-8"),
    ],
)
def test_each_fault_is_named_with_its_line(tmp_path, content, line, says):
    with pytest.raises(DataError, match=says) as caught:
        _read(tmp_path, content)
    assert str(caught.value).startswith(f"{tmp_path}/rows.csv:{line}: ")


def test_an_empty_file_has_no_rows(tmp_path):
    assert _read(tmp_path, "").rows == []

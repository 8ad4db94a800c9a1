"""json and jsonl: nothing is coerced, and each fault is named with file and line."""

import pytest

from openrlhf.data.errors import DataError
from openrlhf.data.json_reader import read_json


def _read(tmp_path, content, name="rows.jsonl", wanted=("a",)):
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return read_json(path, frozenset(wanted))


def _values(table, key="a"):
    return [row.values.get(key) for row in table.rows]


def test_values_keep_their_types_row_by_row(tmp_path):
    table = _read(tmp_path, '{"a": 2}\n{"a": "007"}\n{"a": null}\n{}\n{"a": true}\n{"a": [1, 2]}\n')
    assert _values(table) == [2, "007", None, None, True, [1, 2]]
    assert [type(value) for value in _values(table)] == [int, str, type(None), type(None), bool, list]
    assert ["a" in row.values for row in table.rows] == [True, True, True, False, True, True]


def test_integers_beside_a_null_stay_integers_of_any_size(tmp_path):
    big = 2**70 + 1
    table = _read(tmp_path, f'{{"a": 1}}\n{{"a": null}}\n{{"a": {big}}}\n')
    assert _values(table) == [1, None, big]
    assert type(_values(table)[0]) is int


def test_blank_lines_crlf_bom_and_a_missing_last_newline(tmp_path):
    table = _read(tmp_path, b'\xef\xbb\xbf{"a": "x"}\r\n\r\n  \n{"a": "y"}')
    assert _values(table) == ["x", "y"]
    assert [row.where for row in table.rows] == [f"{tmp_path}/rows.jsonl:1", f"{tmp_path}/rows.jsonl:4"]


def test_unicode_stays_and_a_line_separator_character_ends_no_row(tmp_path):
    table = _read(tmp_path, '{"a": "naïve – 数 \u2028 \u0085 z"}\n{"a": "\\u00e9\\ud83d\\ude00"}\n')
    assert _values(table) == ["naïve – 数 \u2028 \u0085 z", "é😀"]


def test_columns_are_those_of_all_rows_and_only_wanted_values_are_kept(tmp_path):
    table = _read(tmp_path, '{"a": 1, "b": 2}\n{"c": 3, "a": 4}\n')
    assert table.columns == ("a", "b", "c")
    assert dict(table.rows[1].values) == {"a": 4}


@pytest.mark.parametrize("name", ["rows.json", "rows.jsonl"])
def test_an_array_of_objects_with_the_line_of_each(tmp_path, name):
    # The rows start on lines 3, 4 and (after the two-line second one) 5.
    table = _read(tmp_path, '\n[\n  {"a": 1},\n {"a":\n2}, {"a": "[,]"}\n]\n', name)
    assert _values(table) == [1, 2, "[,]"]
    assert [row.number for row in table.rows] == [3, 4, 5]


def test_a_json_file_may_hold_a_row_per_line_and_an_empty_array_no_row(tmp_path):
    assert _values(_read(tmp_path, '{"a": 1}\n{"a": 2}\n', "rows.json")) == [1, 2]
    assert _read(tmp_path, " [ ] \n", "none.json").rows == []


@pytest.mark.parametrize(
    ("content", "line", "says"),
    [
        ('{"a": 1}\n\n{"a": }\n', 3, "not JSON"),
        ('{"a": 1}\n{"a": 2', 2, "not JSON"),
        ('{"a": 1} {"a": 2}\n', 1, "one object on each line"),
        ('{"a": 1}\n[2]\n', 2, "the row is a list"),
        ('{"a": 1}\n"x"\n', 2, "the row is a str"),
        ('{"a": 1}\n{"a": 1, "a": 2}\n', 2, "'a' appears twice"),
        ('{"a": 1}\n{"b": {"k": 1, "k": 1}}\n', 2, "'k' appears twice"),
        (b'{"a": 1}\n{"a": "\xff"}\n', 2, "not UTF-8"),
        (b'\xff\xfe{\x00"\x00', 1, "not UTF-8"),
        ('{"a": ' + "9" * 5000 + "}", 1, "5000 digits"),
        ('{"a": ' + "[" * 100_000 + "}", 1, "recursion"),
        ('[\n{"a": 1},\n]', 3, "not JSON"),
        ('[\n{"a": 1}\n{"a": 2}\n]', 3, "expected ',' or ']'"),
        ('[\n{"a": 1}', 2, "expected ',' or ']'"),
        ('[{"a": 1}]\n[', 2, "more text"),
        ('[\n{"a": 1}, 5]', 2, "the row is a int"),
        ('[\n{"a": 1,\n"b": x}]', 3, "not JSON"),
    ],
)
def test_each_fault_is_named_with_its_line(tmp_path, content, line, says):
    with pytest.raises(DataError) as caught:
        _read(tmp_path, content)
    assert str(caught.value).startswith(f"{tmp_path}/rows.jsonl:{line}: ")
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)

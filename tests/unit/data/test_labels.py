"""Case i2: labels reach the reward function as text that says what the file says."""

import datetime
from decimal import Decimal

import pytest

from openrlhf.data.errors import DataError
from openrlhf.data.json_reader import read_json
from openrlhf.data.labels import label_names, label_text
from openrlhf.data.rows import Row


def test_a_label_nested_too_deeply_is_one_line_with_the_row():
    value = []
    for _ in range(5000):
        value = [value]
    with pytest.raises(DataError, match=r"^set.jsonl:3: 'label': the value is nested too deeply; store it as a string"):
        label_text(Row({"label": value}, "set.jsonl", 3, "line"), "label")


@pytest.mark.parametrize(
    ("literal", "expected"),
    [
        ("2", "2"),
        ('"$5$;$10$"', "$5$;$10$"),
        ("[1, 2]", "[1, 2]"),
        ("null", ""),
        ("0.5", "0.5"),
        ("true", "true"),
        ("false", "false"),
        ('{"answer": "7"}', '{"answer": "7"}'),
        ('"007"', "007"),
        ('" x\\n"', " x\n"),
        ('""', ""),
        ("0.50", "0.50"),
        ("1e3", "1e3"),
        ("2.0", "2.0"),
        ("0.12345678901234567890123", "0.12345678901234567890123"),
        ("1e400", "1e400"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ('[1.50, null, true, "é\\"", {"k": [], "l": {}}]', '[1.50, null, true, "é\\"", {"k": [], "l": {}}]'),
        ('"2020-01-01"', "2020-01-01"),
        ('"true"', "true"),
        ('"NaN"', "NaN"),
    ],
)
def test_a_json_label_becomes_its_text(tmp_path, literal, expected):
    path = tmp_path / "rows.jsonl"
    path.write_text(f'{{"label": {literal}}}\n')
    assert label_text(read_json(path, frozenset({"label"})).rows[0], "label") == expected


def _row(value):
    return Row({"label": value}, "set", 3, "row")


def test_absent_and_unasked_labels_are_empty():
    assert label_text(Row({}, "set", 1, "row"), "label") == ""
    assert label_text(_row("x"), None) == ""


def test_typed_values_of_columnar_files():
    assert label_text(_row(0.1), "label") == "0.1"
    assert label_text(_row(Decimal("2.50")), "label") == "2.50"


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        float("inf"),
        [float("nan")],
        datetime.date(2020, 1, 1),
        b"x",
        {"k": b"x"},
        "\ud83d",
        Decimal("NaN"),
    ],
)
def test_a_value_without_exact_text_is_refused_with_row_and_key(value):
    with pytest.raises(DataError, match=r"^set, row 3: 'label': ") as caught:
        label_text(_row(value), "label")
    assert "store it as a string" in str(caught.value)


@pytest.mark.parametrize("literal", ["NaN", "-Infinity", "[1, NaN]", '"\\ud83d"'])
def test_json_values_that_are_not_json_are_refused_as_labels(tmp_path, literal):
    path = tmp_path / "rows.jsonl"
    path.write_text(f'{{"label": {literal}}}\n')
    with pytest.raises(DataError, match=r"rows.jsonl:1: 'label': "):
        label_text(read_json(path, frozenset({"label"})).rows[0], "label")


@pytest.mark.parametrize(
    ("label", "expected"),
    [
        (
            '{"uuid": "7", "env_func": "there", "task": "math"}',
            {"env_func": "there", "task": "math"},
        ),
        (' {"task": "kk"}', {"task": "kk"}),
        ('{"task": 3, "env_func": ""}', {}),
        ("{1, 2}", {}),
        ('["task"]', {}),
        ("42", {}),
        ("", {}),
    ],
)
def test_a_label_may_name_task_and_environment(label, expected):
    assert label_names(label) == expected

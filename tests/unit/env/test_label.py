"""Labels as JSON objects."""

import copy
import json
import pickle

import pytest

from openrlhf.env.errors import EnvError
from openrlhf.env.label import gold_of, number_of, read_label, structure_fault


def test_a_field_that_is_null_is_absent():
    label = read_label('{"gold_ans": null, "answer": "7", "repeatness_threshold": null, "metadata": {"seed": null}}')
    assert label == {"answer": "7", "metadata": {"seed": None}}
    assert gold_of(label) == "7"
    assert number_of(label, "repeatness_threshold", 0.05) == 0.05


DIGITS = "12345678901234567890.5"


def test_a_written_number_is_a_float_to_everybody_else():
    label = read_label('{"gold_ans": 1.50}')
    assert label["gold_ans"] == 1.5
    assert json.dumps(label) == '{"gold_ans": 1.5}'
    assert gold_of(copy.deepcopy(label)) == gold_of(pickle.loads(pickle.dumps(label))) == "1.50"


@pytest.mark.parametrize("text", ["null", "7", "[1]", "so {"])
def test_a_label_that_is_no_object_is_the_answer(text):
    assert read_label(text) == {"gold_ans": text}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("0.00001", "0.00001"),
        ("1e16", "10000000000000000"),
        ("7", "7"),
        ("7.0", "7.0"),
        ("1.50", "1.50"),
        ("[1.5]", "[1.5]"),
        (DIGITS, DIGITS),
        ("1e999999999", "1e999999999"),
    ],
)
def test_a_number_is_an_answer_in_decimal_digits(value, text):
    assert gold_of(read_label(f'{{"gold_ans": {value}}}')) == text


@pytest.mark.parametrize(("value", "number"), [(0.3, 0.3), (1, 1.0), ("0.3", 0.3)])
def test_a_number(value, number):
    assert number_of({"x": value}, "x", 0.05) == number


@pytest.mark.parametrize("value", ["high", [0.1], {}, float("nan"), float("inf"), 10**400])
def test_what_is_no_number_is_named(value):
    with pytest.raises(EnvError, match=r"the label's 'x' must be a number, not .*; leave it out for 0.05"):
        number_of({"x": value}, "x", 0.05)


@pytest.mark.parametrize(
    "gold", ["{'gold_ans': '7'}", '{"ground_truth": "7"}', "['7']", '["7", "8"]', "[{'a': 1}]", "{'7'}", ' {"a":1}']
)
def test_a_dict_or_a_list_of_texts_is_no_right_answer(gold):
    said = structure_fault(gold)
    assert said.startswith(f"the right answer {gold.strip()!r} is a dict or list")
    assert "'gold_ans' (or 'answer')" in said


@pytest.mark.parametrize("gold", ["[1, 2]", r"\{1,2\}", "{1, 2}", "[f'(x), g'(x)]", "{x}", "['", "7", "", r"\{'a'\}"])
def test_lists_and_sets_of_mathematics_are_right_answers(gold):
    assert structure_fault(gold) is None


def test_a_message_shows_the_start_of_a_long_label():
    said = structure_fault("{'solution': " + "7" * 10_000)
    assert repr("{'solution': " + "7" * 47) in said  # 13 + 47 = 60 characters

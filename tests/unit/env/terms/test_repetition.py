"""Repetition in a text, against counting by hand and by brute force."""

import random
import time

import pytest

from openrlhf.env.terms.repetition import repeatness, repetition


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", 0.0),
        ("a", 0.0),
        ("abc", 0.0),  # all 6 substrings are distinct
        ("aaaa", 0.6),  # a, aa, aaa, aaaa: 4 distinct of 10
        ("abab", 0.3),  # a, b, ab, ba, aba, bab, abab: 7 distinct of 10
    ],
)
def test_repeatness_by_hand(text, expected):
    assert repeatness(text) == pytest.approx(expected)


def test_repeatness_is_the_share_of_substrings_that_are_no_first_occurrence():
    generator = random.Random(1)
    for length in (2, 5, 17, 40):
        text = "".join(generator.choice("abü") for _ in range(length))
        distinct = {text[i:j] for i in range(length) for j in range(i + 1, length + 1)}
        assert repeatness(text) == pytest.approx(1 - len(distinct) / (length * (length + 1) / 2))


def test_a_long_response_costs_little_time():
    started = time.process_time()
    assert repeatness("so it is. " * 1500) > 0.9
    assert time.process_time() - started < 2.0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one two", 0.0),
        ("one two three one two three", 0.25),  # 123 231 312 123: 3 distinct of 4
        ("no, no: no no", 0.5),  # two equal groups
        ("数数数数", 0.5),  # each character is a word
    ],
)
def test_repetition_by_hand(text, expected):
    assert repetition(text) == pytest.approx(expected)

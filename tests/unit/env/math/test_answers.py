"""Answers as strings, and the answer inside a label."""

import time

import pytest

from openrlhf.env.math.answers import gold_answer, simplify


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("7\\", "7"),  # of `7\\ ` at the end of a box
        (r"$ \dfrac{1}{2} $.", r"\frac{1}{2}"),
        (r"\left( 1, 2 \right)", "(1,2)"),
        (r"\text{Evelyn}", "Evelyn"),
        (r"12\,345", "12 345"),
        (r"\$5", "5"),
        (r"1\quad2", "1 2"),
        ("x  +\ty", "x+y"),
    ],
)
def test_the_same_answer_typeset_otherwise(left, right):
    assert simplify(left) == simplify(right)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("1 2", "12"),
        ("1  2", "12"),
        ("1.2", "12"),
        ("-1", "1"),
        ("A", "B"),
        (r"\leftarrow", "arrow"),
        ("5%", "5"),
        ("0.3...", "0.3"),
    ],
)
def test_other_answers_stay_apart(left, right):
    assert simplify(left) != simplify(right)


@pytest.mark.parametrize(
    ("label", "gold"),
    [
        ("72", "72"),
        (" 72\n", "72"),
        ("48/2 = 24\n48+24 = 72\n#### 72", "72"),
        (r"So \boxed{5}, no, \boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
        (r"\boxed{7", r"\boxed{7"),
        ("", ""),
    ],
)
def test_gold_answer(label, gold):
    assert gold_answer(label) == gold


@pytest.mark.parametrize("text", [" " * 200_000, "a " * 100_000, r"\text{" * 32_000, "x" * 200_000, "." * 200_000])
def test_linear_in_the_length(text):
    started = time.process_time()
    simplify(text)
    assert time.process_time() - started < 2

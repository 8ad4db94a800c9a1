"""Answers as math-verify shall read them."""

import time

import pytest

from openrlhf.env.math.readings import read
from openrlhf.env.math.wording import verdict_of_wording


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2 1/2", r"2\frac{1}{2}"),
        ("2 3/2", "2 3/2"),  # perhaps a product
        ("7(11)(13)", r"7\cdot (11)\cdot (13)"),
        (r"\log_2(8)", r"\log_2(8)"),
        (r"10\,200", "10200"),
        (r"0\,125", r"0\,125"),
        (r"\frac123", r"\frac{1}{2}3"),
        (r"\frac1{23}", r"\frac{1}{23}"),
        ("1.5e3", r"1.5\times10^{3}"),
        ("2e-1", "2e-1"),  # perhaps 2e minus 1
        ("1E5_{16}", "1E5_{16}"),
        (r"7\text{ million dollars}", r"7\cdot 10^{6}\text{ dollars}"),
        (r"-\boxed{7}", "- 7"),
        ("√12", r"\sqrt{12}"),
    ],
)
def test_read(text, expected):
    assert read(text) == expected


@pytest.mark.parametrize(
    "text", ["1 ", "1 1/", "(1)", r"\text{", r"\frac1", "{1", "√", "1e1", r"5\text{a}", r"5\text{{a}", "a b ", ",..."]
)
def test_linear_in_the_length(text):
    started = time.process_time()
    verdict_of_wording(read(text * 10_000), "7")
    assert time.process_time() - started < 2

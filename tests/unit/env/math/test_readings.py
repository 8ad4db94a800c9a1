"""Answers as math-verify shall read them."""

import time

import pytest

from openrlhf.env.math.readings import read
from openrlhf.env.math.wording import verdict_of_wording, without_asides


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
        (r"0.1\overline{6}", r"\frac{15}{90}"),  # 16 - 1 = 15
        (r"0.\dot{1}2\dot{3}", r"\frac{123}{999}"),
        (r"0.\overline{3}\ldots", r"0.\overline{3}\ldots"),
        ("x²³", "x^{23}"),
        ("€5 million", r"5\cdot 10^{6}\text{ euros}"),
        ("£5 or €6", "£5 or €6"),  # two units
        (r"{\bf 7},", "7"),
        (r"\langle x | y\rangle", r"\langle x | y\rangle"),  # no vector
    ],
)
def test_read(text, expected):
    assert read(text) == expected


LONG = ["1 ", "1 1/", "(1)", r"\text{", r"\frac1", "{1", "√", "1e1", r"5\text{a}", r"5\text{{a}", "a b ", ",..."]
LONG += [
    "*",
    "=",
    ", ",
    "€",
    r"\langle",
    r"0.\dot1",
    r"\sqrt(",
    r"\text{for all",
    r"\text{ for all }1",
    r", n\in\mathbb Z",
    "m",
]


@pytest.mark.parametrize("text", LONG)
def test_linear_in_the_length(text):
    started = time.process_time()
    long = read(text * 10_000)
    verdict_of_wording(long, "7")
    without_asides(long, "7")
    assert time.process_time() - started < 2

"""Comparisons are strict about types and never raise."""

import math

import pytest

from deepgym import compare


@pytest.mark.parametrize(
    ("value", "expected", "same"),
    [
        (3, 3, True),
        (3.0, 3, True),
        (True, 1, False),
        (1, True, False),
        ("1", 1, False),
        (None, 0, False),
        (None, None, True),
        ([1, [2]], (1, (2,)), True),
        ([1, 2], [2, 1], False),
        ([1], [1, 1], False),
        ({"a": 1}, {"a": 1.0}, True),
        ({"a": 1, "b": 2}, {"a": 1}, False),
        (math.nan, math.nan, True),
        ("x", [1], False),
    ],
)
def test_same_data(value, expected, same):
    assert compare.same_data(value, expected) is same


def test_integers_that_no_float_holds():
    assert compare.same_data(10**5000, 10**5000)
    assert not compare.same_data(10**5000, 1.5)


def test_close_takes_finite_numbers_only():
    assert compare.close(1.0000001, 1.0)
    assert not compare.close(1.1, 1.0)
    assert not any(compare.close(value, 1.0) for value in (math.nan, math.inf, True, "1", None, 10**400, [1.0]))


def test_text_forgives_line_ends_and_trailing_space_only():
    assert compare.same_lines(b"a \r\nb\n\n\n", "a\nb")
    assert not compare.same_lines(b" a\nb", "a\nb")
    assert not compare.same_lines(b"a\n\nb", "a\nb")
    assert compare.lines_of(b"\xff\xfe\n") == ["\ufffd\ufffd"]


def test_ints_of_reads_plain_decimal_ints():
    assert compare.ints_of(b"1 -2\n 3\n") == [1, -2, 3]
    for bad in (b"1.0", b"1_0", b"0x1", b"--1", b"", "\u0663".encode(), b"1" * 19):
        assert compare.ints_of(bad) in (None, [])


def test_is_int_and_lists():
    assert compare.is_int(3, 0, 3)
    assert not compare.is_int(True)
    assert not compare.is_int(4, 0, 3)
    assert compare.is_permutation([2, 0, 1], range(3))
    assert not compare.is_permutation([0, 0, 1], range(3))
    assert not compare.is_permutation([False, 1, 2], range(3))

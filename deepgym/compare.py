"""Comparisons for verifiers: total functions of untrusted data. They answer False for any shape they do not expect.

A judge that raised on odd data would leave the answer without a verdict, a way out of a 0; so judges are built
from these.
"""

from collections.abc import Sequence
from typing import Any, TypeGuard

from deepgym.sandbox.base import StepOutcome

_EXACT_FLOAT_INT = 1 << 1000  # integers beyond this cannot become a float


def same_data(value: Any, expected: Any) -> bool:
    """Equality of JSON data where True is not 1 and "1" is not 1, while 3 and 3.0 are the same number.

    `expected` may hold tuples for lists. NaN equals NaN here.
    """
    if isinstance(expected, tuple):
        expected = list(expected)
    if isinstance(expected, dict):
        return (
            isinstance(value, dict)
            and value.keys() == expected.keys()
            and all(same_data(value[key], expected[key]) for key in expected)
        )
    if isinstance(expected, list):
        return (
            isinstance(value, list)
            and len(value) == len(expected)
            and all(same_data(ours, theirs) for ours, theirs in zip(value, expected, strict=True))
        )
    if is_number(value) and is_number(expected):
        return value == expected or (value != value and expected != expected)
    return type(value) is type(expected) and value == expected


def close(value: Any, expected: float, tolerance: float = 1e-6) -> bool:
    """|value - expected| <= tolerance * max(1, |expected|), for a finite number; False for anything else."""
    if not is_number(value) or (isinstance(value, int) and abs(value) > _EXACT_FLOAT_INT):
        return False
    return abs(value - expected) <= tolerance * max(1.0, abs(expected))


def is_number(value: Any) -> TypeGuard[int | float]:
    """An int or a float, but not a bool."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_int(value: Any, low: int | None = None, high: int | None = None) -> TypeGuard[int]:
    """An int (not a bool) with low <= value <= high."""
    return (
        isinstance(value, int)
        and not isinstance(value, bool)
        and (low is None or low <= value)
        and (high is None or value <= high)
    )


def is_list_of_ints(value: Any, low: int | None = None, high: int | None = None) -> TypeGuard[list[int]]:
    """A list whose elements all pass `is_int`."""
    return isinstance(value, list) and all(is_int(element, low, high) for element in value)


def text_of(data: bytes) -> str:
    """Bytes an answer wrote, as text; what is not UTF-8 becomes U+FFFD."""
    return data.decode("utf-8", errors="replace")


def lines_of(data: bytes) -> list[str]:
    """Lines without trailing white space (so CRLF is LF) and without empty lines at the end."""
    lines = [line.rstrip() for line in text_of(data).split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def same_lines(data: bytes, expected: str) -> bool:
    """Same text, except for white space at the ends of lines and empty lines at the end."""
    return lines_of(data) == lines_of(expected.encode())


def ints_of(data: bytes, limit: int = 200_000) -> list[int] | None:
    """All white-space separated tokens as ints; None when one is not a decimal int of at most 18 digits."""
    tokens = text_of(data).split()
    if len(tokens) > limit:
        return None
    numbers = []
    for token in tokens:
        digits = token.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 18):
            return None
        numbers.append(int(token))
    return numbers


def stdout_is(outcome: StepOutcome, expected: str) -> bool:
    """The program printed `expected`, in the sense of `same_lines`."""
    return same_lines(outcome.stdout, expected)


def is_permutation(value: Any, elements: Sequence[int]) -> bool:
    """A list that holds exactly these ints, in any order."""
    return is_list_of_ints(value) and len(value) == len(elements) and sorted(value) == sorted(elements)

"""Exact linear systems; `expected` says only whether the matrix is regular, an answer is put into the equations."""

import math
import random
import re
from fractions import Fraction

from deepgym.models import Case
from deepgym.sandbox.base import StepOutcome

Matrix = list[list[int]]
_NUMBER = re.compile(r"(-?\d{1,400})(?:/(\d{1,400}))?", re.ASCII)


def determinant(matrix: Matrix) -> int:
    """By fraction-free elimination (Bareiss, 1968)."""
    rows, sign, previous = [row[:] for row in matrix], 1, 1
    for k in range(len(rows) - 1):
        pivot = next((i for i in range(k, len(rows)) if rows[i][k]), None)
        if pivot is None:
            return 0
        if pivot != k:
            rows[k], rows[pivot], sign = rows[pivot], rows[k], -sign
        for i in range(k + 1, len(rows)):
            for j in range(k + 1, len(rows)):
                rows[i][j] = (rows[i][j] * rows[k][k] - rows[i][k] * rows[k][j]) // previous
        previous = rows[k][k]
    return sign * rows[-1][-1]


def case(name: str, group: str, matrix: Matrix, right: list[int]) -> Case:
    return Case(name, determinant(matrix) != 0, args=(matrix, right), group=group)


def examples() -> list[Case]:
    return [
        Case("example 1", ["1/2", "2"], args=([[2, 1], [4, 0]], [3, 2]), hidden=False),
        Case("example 2", [], args=([[1, 2], [2, 4]], [1, 2]), hidden=False),
    ]


def draw(rng: random.Random, size: int, highest: int) -> Matrix:
    return [[rng.randint(-highest, highest) for _ in range(size)] for _ in range(size)]


def singular(rng: random.Random, size: int) -> Matrix:
    matrix = draw(rng, size, 9)
    factor = rng.choice([-2, 1, 3])
    matrix[rng.randrange(1, size)] = [factor * value for value in matrix[0]]
    return matrix


def cases(rng: random.Random) -> list[Case]:
    made = []
    for i in range(6):
        size = rng.randint(2, 4)
        matrix = singular(rng, size) if i % 3 == 2 else draw(rng, size, 9)
        made.append(case(f"small {i}", "small", matrix, [rng.randint(-9, 9) for _ in range(size)]))
    value = rng.randint(2, 9)
    made += [
        case("one equation", "edges", [[value]], [value * 3 + 1]),
        case("zero equals zero", "edges", [[0]], [0]),
        case("zero on the diagonal", "edges", [[0, 2], [value, 0]], [5, 3]),
        case("all zero on the right", "edges", [[1, 1], [1, -1]], [0, 0]),
        case("contradiction", "edges", [[1, 1], [1, 1]], [1, 2]),
        case("nearly singular", "edges", [[10**6, 10**6 + 1], [10**6 - 1, 10**6]], [1, value]),
    ]
    for i in range(2):
        made.append(case(f"large {i}", "large", draw(rng, 14, 99), [rng.randint(-99, 99) for _ in range(14)]))
    made.append(case("large singular", "large", singular(rng, 13), [rng.randint(-9, 9) for _ in range(13)]))
    return made


def fraction_of(text: object) -> Fraction | None:
    """The number a string spells; None unless it is a fraction in lowest terms or a whole number."""
    match = _NUMBER.fullmatch(text) if isinstance(text, str) and len(text) <= 802 else None
    if match is None:
        return None
    numerator, denominator = int(match[1]), int(match[2] or 1)
    lowest = denominator > 1 and math.gcd(numerator, denominator) == 1
    return Fraction(numerator, denominator) if match[2] is None or lowest else None


def judge(case: Case, outcome: StepOutcome) -> bool:
    matrix, right = case.args
    answer = outcome.value
    if case.expected in (False, []):
        return answer == []
    if not isinstance(answer, list) or len(answer) != len(right):
        return False
    numbers = [fraction_of(text) for text in answer]
    if any(number is None for number in numbers):
        return False
    return all(
        sum(a * x for a, x in zip(row, numbers, strict=True) if x is not None) == b
        for row, b in zip(matrix, right, strict=True)
    )

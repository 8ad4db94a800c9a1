"""Expressions are written from random trees whose values are computed beside them, so nothing is parsed here."""

import random

from deepgym.compare import same_data
from deepgym.models import Case
from deepgym.sandbox.base import StepOutcome

Written = tuple[str, int | None, int]  # text, value, binding: 1 sum, 2 product, 3 atom


def combine(operator: str, left: int | None, right: int | None) -> int | None:
    if left is None or right is None:
        return None
    if operator == "+":
        return left + right
    if operator == "-":
        return left - right
    if operator == "*":
        return left * right
    return None if right == 0 else abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)


def tree(rng: random.Random, depth: int, zero: bool) -> Written:
    """A random expression; with `zero`, division by zero may happen."""
    if depth == 0 or rng.random() < 0.15:
        number = rng.randint(0, 60)
        return (f"-{number}", -number, 3) if rng.random() < 0.15 else (str(number), number, 3)
    if rng.random() < 0.1:
        text, value, _ = tree(rng, depth - 1, zero)
        return f"-({text})", None if value is None else -value, 3
    operator = rng.choice("+-*/")
    left, right = tree(rng, depth - 1, zero), tree(rng, depth - 1, zero)
    value = combine(operator, left[1], right[1])
    if value is None and not zero:
        return left
    binding = 1 if operator in "+-" else 2
    first = left[0] if left[2] >= binding else f"({left[0]})"
    second = right[0] if right[2] > binding else f"({right[0]})"
    space = rng.choice(["", " ", "  "])
    return f"{first}{space}{operator}{space}{second}", value, binding


def case(name: str, group: str, text: str, value: int | None, hidden: bool = True) -> Case:
    return Case(name, value, args=(text,), group=group, hidden=hidden)


def examples() -> list[Case]:
    return [
        case("example 1", "small", "2 + 3*(4 - 1)", 11, hidden=False),
        case("example 2", "small", "-7/2 - 1", -4, hidden=False),
        case("example 3", "small", "1/(2 - 2)", None, hidden=False),
    ]


def long_sum(rng: random.Random, terms: int) -> tuple[str, int]:
    parts, total = [], 0
    for _ in range(terms):
        number, sign = rng.randint(0, 99), rng.choice("+-")
        parts.append(f" {sign} {number}")
        total += number if sign == "+" else -number
    return "0" + "".join(parts), total


def cases(rng: random.Random) -> list[Case]:
    made = [case(f"small {i}", "small", *tree(rng, 4, False)[:2]) for i in range(10)]
    a, b = rng.randint(2, 9), rng.randint(11, 19)
    made += [
        case("a number", "edges", str(b), b),
        case("left to right", "edges", f"{b} - {a} - 1", b - a - 1),
        case("division left to right", "edges", f"{8 * b}/4/2", b),
        case("towards zero", "edges", f"-{b}/{2 * b - 1} + {a}", a),
        case("minus a parenthesis", "edges", f"{a}*-({b}+1)", -a * (b + 1)),
        case("two minus signs", "edges", f"{a} - -{b}", a + b),
        case("division by zero", "edges", f"{a} + {b}/({a}-{a})", None),
        case("zero times", "edges", f"0*(5/{a}) + ({b})", b),
    ]
    text, total = long_sum(rng, 12_000)
    deep = rng.randint(150, 190)
    grown = [tree(rng, 9, False) for _ in range(12)]
    wide = "-1/1 + " + " + ".join(f"({t})" for t, _, _ in grown) + " + 1/-1"  # the first and the last are -1 each
    made += [
        case("long sum", "large", text, total),
        case("deep", "large", "(" * deep + "7" + "+1)" * deep, 7 + deep),
        case("wide", "large", wide, sum(v for _, v, _ in grown if v is not None) - 2),
        case("long sum, then zero", "large", f"({text})/(3-3)", None),
    ]
    return made


def judge(case: Case, outcome: StepOutcome) -> bool:
    return same_data(outcome.value, case.expected) and not isinstance(outcome.value, float)

"""Inversions; the oracle inserts numbers into a sorted list and asks how many are larger."""

import bisect
import random

from deepgym.compare import is_int
from deepgym.models import Case
from deepgym.sandbox.base import StepOutcome


def inversions(numbers: list[int]) -> int:
    seen: list[int] = []
    total = 0
    for number in numbers:
        total += len(seen) - bisect.bisect_right(seen, number)
        bisect.insort(seen, number)
    return total


def case(name: str, group: str, numbers: list[int], hidden: bool = True) -> Case:
    return Case(name, inversions(numbers), args=(numbers,), group=group, hidden=hidden)


def examples() -> list[Case]:
    return [
        case("example 1", "small", [3, 1, 2], hidden=False),
        case("example 2", "small", [1, 1, 2], hidden=False),
    ]


def cases(rng: random.Random) -> list[Case]:
    made = [case(f"small {i}", "small", [rng.randint(-9, 9) for _ in range(rng.randint(5, 9))]) for i in range(8)]
    length = rng.randint(10, 20)
    made += [
        case("empty", "edges", []),
        case("one number", "edges", [5]),
        case("equal numbers", "edges", [7] * length),
        case("sorted", "edges", list(range(length))),
        case("reversed", "edges", list(range(length, 0, -1))),
        case("two equal runs", "edges", [4] * length + [3] * length),
    ]
    made += [
        case("large, random", "large", [rng.randint(-(10**9), 10**9) for _ in range(20_000)]),
        case("large, few values", "large", [rng.randint(0, 9) for _ in range(20_000)]),
        case("large, reversed", "large", list(range(20_000, 0, -1))),
    ]
    return made


def judge(case: Case, outcome: StepOutcome) -> bool:
    return is_int(outcome.value, case.expected, case.expected)

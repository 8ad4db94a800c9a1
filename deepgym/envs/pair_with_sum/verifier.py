"""Any pair of positions with the right sum is right; `expected` only says whether there is one."""

import random

from deepgym.compare import is_list_of_ints
from deepgym.models import Case
from deepgym.sandbox.base import StepOutcome


def solvable(numbers: list[int], target: int) -> bool:
    ordered = sorted(numbers)
    low, high = 0, len(ordered) - 1
    while low < high:
        total = ordered[low] + ordered[high]
        if total == target:
            return True
        low, high = (low + 1, high) if total < target else (low, high - 1)
    return False


def case(name: str, group: str, numbers: list[int], target: int) -> Case:
    return Case(name, solvable(numbers, target), args=(numbers, target), group=group)


def examples() -> list[Case]:
    return [
        Case("example 1", [0, 2], args=([4, 9, 3], 7), hidden=False),
        Case("example 2", [], args=([5, 1], 10), hidden=False),
    ]


def large(rng: random.Random, pair: bool) -> tuple[list[int], int]:
    """20000 even numbers in random order; an odd one at each end makes the only pair with an even target of odds."""
    numbers = [2 * rng.randint(1, 10**8) for _ in range(19_998)]
    left, right = 2 * rng.randint(1, 10**6) + 1, -2 * rng.randint(10**9, 2 * 10**9) - 1
    target = left + right if pair else right + 2 * 10**9 + 2 * 10**8 + 1
    return [left, *numbers, right], target


def cases(rng: random.Random) -> list[Case]:
    made = []
    for i in range(8):
        numbers = [rng.randint(-20, 20) for _ in range(rng.randint(4, 10))]
        if i % 2:
            first, second = rng.sample(range(1, len(numbers)), 2)
            made.append(case(f"small {i}", "small", numbers, numbers[first] + numbers[second]))
        else:
            made.append(case(f"small {i}", "small", numbers, rng.randint(45, 60)))
    half = rng.randint(3, 40)
    made += [
        case("half of the target once", "edges", [half, 1000, 2000], 2 * half),
        case("half of the target twice", "edges", [1, half, 999, half], 2 * half),
        case("no numbers", "edges", [], 0),
        case("last two", "edges", [100, 200, 300, -7, -half], -7 - half),
        case("zeros", "edges", [5, 0, 9, 0], 0),
    ]
    for i, pair in enumerate((True, False, True)):
        made.append(case(f"large {i}", "large", *large(rng, pair)))
    return made


def judge(case: Case, outcome: StepOutcome) -> bool:
    numbers, target = case.args
    pair = outcome.value
    if not is_list_of_ints(pair, 0, len(numbers) - 1):
        return False
    if not pair:
        return case.expected in (False, [])
    return len(pair) == 2 and pair[0] < pair[1] and numbers[pair[0]] + numbers[pair[1]] == target

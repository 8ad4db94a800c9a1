"""Any best choice is right; the oracle keeps the undominated (weight, value) pairs (Nemhauser and Ullmann, 1969)."""

import random

from deepgym.compare import is_list_of_ints
from deepgym.models import Case
from deepgym.sandbox.base import StepOutcome


def best_value(weights: list[int], values: list[int], capacity: int) -> int:
    frontier = [(0, 0)]
    for weight, value in zip(weights, values, strict=True):
        taken = [(w + weight, v + value) for w, v in frontier if w + weight <= capacity]
        frontier_next: list[tuple[int, int]] = []
        for w, v in sorted(frontier + taken, key=lambda pair: (pair[0], -pair[1])):
            if not frontier_next or v > frontier_next[-1][1]:
                frontier_next.append((w, v))
        frontier = frontier_next
    return frontier[-1][1]


def case(name: str, group: str, weights: list[int], values: list[int], capacity: int) -> Case:
    return Case(name, best_value(weights, values, capacity), args=(weights, values, capacity), group=group)


def examples() -> list[Case]:
    return [
        Case("example 1", [0, 2], args=([3, 4, 2], [5, 6, 3], 5), hidden=False),
        Case("example 2", [], args=([9], [1], 8), hidden=False),
    ]


def cases(rng: random.Random) -> list[Case]:
    made = []
    for i in range(8):
        weights = [rng.randint(2, 9) for _ in range(6)]
        values = [rng.randint(1, 20) for _ in range(6)]
        made.append(case(f"small {i}", "small", weights, values, rng.randint(10, 20)))
    made += [
        case("nothing fits", "edges", [5, 6], [9, 9], 4),
        case("fits exactly", "edges", [rng.randint(2, 9), 50], [3, 70], 50),
        case("all fit", "edges", [1, 2, 3], [5, 1, 2], 6),
        case("no items", "edges", [], [], 10),
        case("dense item first is wrong", "edges", [6, 5, 5], [13, 10, 10], 10),
        case("capacity zero", "edges", [1], [1], 0),
    ]
    for i in range(3):
        weights = [rng.randint(20, 200) for _ in range(50)]
        values = [weight + rng.randint(-10, 10) for weight in weights]
        made.append(case(f"large {i}", "large", weights, values, rng.randint(1_800, 3_000)))
    weights = [rng.randint(20, 50) for _ in range(50)]
    made.append(case("large, all fit", "large", weights, [rng.randint(1, 90) for _ in range(50)], 3_000))
    return made


def judge(case: Case, outcome: StepOutcome) -> bool:
    weights, values, capacity = case.args
    chosen = outcome.value
    if not is_list_of_ints(chosen, 0, len(weights) - 1) or len(set(chosen)) < len(chosen):
        return False
    best = sum(values[i] for i in case.expected) if isinstance(case.expected, list) else case.expected
    return sum(weights[i] for i in chosen) <= capacity and sum(values[i] for i in chosen) == best

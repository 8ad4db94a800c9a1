"""Lower medians of windows; the oracle counts values in a Fenwick tree over ranks and descends to the k-th."""

import random

from deepgym.compare import is_list_of_ints
from deepgym.models import Case
from deepgym.sandbox.base import StepOutcome


def medians(numbers: list[int], width: int) -> list[int]:
    values = sorted(set(numbers))
    rank = {value: i + 1 for i, value in enumerate(values)}
    top = 1 << len(values).bit_length()
    tree = [0] * (top + 1)

    def add(place: int, amount: int) -> None:
        while place <= top:
            tree[place] += amount
            place += place & -place

    def value_at(position: int) -> int:
        place, step = 0, top
        while step:
            if place + step <= top and tree[place + step] <= position:
                place += step
                position -= tree[place]
            step //= 2
        return values[place]

    found = []
    for i, number in enumerate(numbers):
        add(rank[number], 1)
        if i >= width:
            add(rank[numbers[i - width]], -1)
        if i >= width - 1:
            found.append(value_at((width - 1) // 2))
    return found


def case(name: str, group: str, numbers: list[int], width: int, hidden: bool = True) -> Case:
    return Case(name, medians(numbers, width), args=(numbers, width), group=group, hidden=hidden)


def examples() -> list[Case]:
    return [
        case("example 1", "small", [5, 1, 4, 2], 3, hidden=False),
        case("example 2", "small", [9, 7, 8], 2, hidden=False),
    ]


def cases(rng: random.Random) -> list[Case]:
    made = []
    for i in range(8):
        numbers = [rng.randint(-9, 9) for _ in range(rng.randint(6, 12))]
        made.append(case(f"small {i}", "small", numbers, rng.randint(2, 5)))
    numbers = [rng.randint(-99, 99) for _ in range(9)]
    made += [
        case("width one", "edges", numbers, 1),
        case("one window", "edges", numbers, 9),
        case("even window", "edges", numbers, 4),
        case("all equal", "edges", [3] * 6, 4),
        case("falling", "edges", list(range(20, 0, -1)), 6),
        case("one number", "edges", [rng.randint(1, 9)], 1),
    ]
    for i, width in enumerate((3_001, 5_000)):
        numbers = [rng.randint(-(10**9), 10**9) for _ in range(16_000)]
        made.append(case(f"large {i}", "large", numbers, width))
    return made


def judge(case: Case, outcome: StepOutcome) -> bool:
    return is_list_of_ints(outcome.value) and outcome.value == case.expected

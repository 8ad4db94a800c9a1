"""Union of closed intervals; the oracle sweeps over start and end events and counts how many intervals are open."""

import random

from deepgym.compare import same_data
from deepgym.models import Case
from deepgym.sandbox.base import StepOutcome


def union(intervals: list[list[int]]) -> list[list[int]]:
    events = sorted([(start, 0) for start, _ in intervals] + [(end, 1) for _, end in intervals])
    merged, opened, first = [], 0, 0
    for place, is_end in events:
        if not is_end:
            first = place if opened == 0 else first
            opened += 1
        else:
            opened -= 1
            if opened == 0:
                merged.append([first, place])
    return merged


def case(name: str, group: str, intervals: list[list[int]], hidden: bool = True) -> Case:
    return Case(name, union(intervals), args=(intervals,), group=group, hidden=hidden)


def examples() -> list[Case]:
    return [
        case("example 1", "small", [[1, 3], [2, 6], [8, 10]], hidden=False),
        case("example 2", "small", [[4, 5], [1, 4]], hidden=False),
    ]


def draw(rng: random.Random, count: int, span: int, longest: int) -> list[list[int]]:
    starts = [rng.randint(-span, span) for _ in range(count)]
    return [[start, start + rng.randint(0, longest)] for start in starts]


def cases(rng: random.Random) -> list[Case]:
    made = [case(f"small {i}", "small", draw(rng, rng.randint(3, 7), 15, 6)) for i in range(8)]
    start = rng.randint(-9, 9)
    made += [
        case("none", "edges", []),
        case("one", "edges", [[start, start + 3]]),
        case("touching", "edges", [[start + 4, start + 9], [start, start + 4]]),
        case("neighbours that do not touch", "edges", [[start, start + 1], [start + 2, start + 3]]),
        case("one inside the other", "edges", [[start, start + 50], [start + 3, start + 4], [start + 60, start + 61]]),
        case("points", "edges", [[5, 5], [5, 5], [6, 6]]),
    ]
    made += [
        case("large, sparse", "large", draw(rng, 6_000, 10**8, 12_000)),
        case("large, dense", "large", draw(rng, 6_000, 10**5, 40)),
    ]
    return made


def judge(case: Case, outcome: StepOutcome) -> bool:
    return same_data(outcome.value, case.expected)

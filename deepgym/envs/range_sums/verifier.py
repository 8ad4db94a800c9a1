"""Range sums; the oracle adds blocks of 256 numbers and what sticks out of them."""

import random

from deepgym.compare import ints_of
from deepgym.models import Case
from deepgym.sandbox.base import StepOutcome

BLOCK = 256
Pairs = list[tuple[int, int]]


def case(name: str, group: str, numbers: list[int], pairs: Pairs, line: str = "\n", hidden: bool = True) -> Case:
    blocks = [sum(numbers[start : start + BLOCK]) for start in range(0, len(numbers), BLOCK)]

    def total(first: int, last: int) -> int:
        low, high = -(-first // BLOCK), last // BLOCK  # whole blocks inside [first, last)
        if low >= high:
            return sum(numbers[first:last])
        return sum(blocks[low:high]) + sum(numbers[first : low * BLOCK]) + sum(numbers[high * BLOCK : last])

    expected = [total(first - 1, last) for first, last in pairs]
    rows = [f"{len(numbers)} {len(pairs)}", " ".join(map(str, numbers)), *(f"{a} {b}" for a, b in pairs)]
    shown = "\n".join(map(str, expected))
    text = line.join(rows) + line
    return Case(name, expected if hidden else shown, stdin=text.encode(), group=group, hidden=hidden)


def examples() -> list[Case]:
    return [case("example 1", "small", [4, -1, 7], [(1, 3), (2, 2)], hidden=False)]


def draw_pairs(rng: random.Random, length: int, count: int) -> Pairs:
    ends = (sorted((rng.randint(1, length), rng.randint(1, length))) for _ in range(count))
    return [(first, last) for first, last in ends]


def cases(rng: random.Random) -> list[Case]:
    made = []
    for i in range(4):
        numbers = [rng.randint(-50, 50) for _ in range(rng.randint(4, 9))]
        made.append(case(f"small {i}", "small", numbers, draw_pairs(rng, len(numbers), 5)))
    numbers = [rng.randint(-9, 9) for _ in range(6)]
    made += [
        case("one number", "edges", [rng.randint(1, 99)], [(1, 1)]),
        case("whole range", "edges", numbers, [(1, 6), (6, 6), (1, 1)]),
        case("carriage returns", "edges", numbers, [(2, 5)], line="\r\n"),
        case("no pairs", "edges", numbers, []),
        case("big numbers", "edges", [10**15, 10**15, -(10**14)], [(1, 3)]),
    ]
    numbers = [rng.randint(-(10**6), 10**6) for _ in range(60_000)]
    made += [
        case(
            "large, wide", "large", numbers, [(rng.randint(1, 99), rng.randint(59_000, 60_000)) for _ in range(20_000)]
        ),
        case("large, mixed", "large", numbers[:15_000], draw_pairs(rng, 15_000, 20_000)),
    ]
    return made


def judge(case: Case, outcome: StepOutcome) -> bool:
    expected = case.expected if isinstance(case.expected, list) else [int(text) for text in case.expected.split()]
    return ints_of(outcome.stdout) == expected

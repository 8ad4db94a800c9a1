"""A cache simulation; the oracle stamps keys with the time of their last use and asks a heap for the oldest."""

import heapq
import random
from typing import Any

from deepgym.compare import same_data
from deepgym.models import Case
from deepgym.sandbox.base import StepOutcome

Operations = list[list[Any]]
WORDS = ("size", "get", "put")  # keys too


def simulate(capacity: int, operations: Operations) -> list[int | None]:
    values: dict[str, int] = {}
    used: dict[str, int] = {}
    oldest: list[tuple[int, str]] = []
    given: list[int | None] = []
    for time, (kind, *rest) in enumerate(operations):
        if kind == "size":
            given.append(len(values))
            continue
        key = rest[0]
        if kind == "get":
            given.append(values.get(key))
            if key not in values:
                continue
        else:
            values[key] = rest[1]
        used[key] = time
        heapq.heappush(oldest, (time, key))
        while len(values) > capacity:
            stamp, candidate = heapq.heappop(oldest)
            if candidate in values and used[candidate] == stamp:
                del values[candidate]
    return given


def case(name: str, group: str, capacity: int, operations: Operations, hidden: bool = True) -> Case:
    return Case(name, simulate(capacity, operations), args=(capacity, operations), group=group, hidden=hidden)


def examples() -> list[Case]:
    operations: Operations = [["put", "a", 1], ["put", "b", 2], ["get", "a"], ["put", "c", 3], ["get", "b"], ["size"]]
    return [case("example 1", "small", 2, operations, hidden=False)]


def draw(rng: random.Random, count: int, keys: int, puts: float) -> Operations:
    operations: Operations = []
    for _ in range(count):
        number = min(rng.randrange(keys), rng.randrange(keys))
        key = WORDS[number - 2] if 2 <= number < 2 + len(WORDS) else f"k{number}"
        roll = rng.random()
        operations.append(
            ["size"] if roll > 0.98 else ["put", key, rng.randint(0, 999)] if roll < puts else ["get", key]
        )
    return [*operations, ["get", "k0"], ["get", "k1"], ["size"]]


def cases(rng: random.Random) -> list[Case]:
    made = [case(f"small {i}", "small", rng.randint(2, 4), draw(rng, 25, 7, 0.5)) for i in range(8)]
    fill: Operations = [["put", f"k{i}", i] for i in range(4)]
    made += [
        case("no operations", "edges", 3, []),
        case("capacity one", "edges", 1, draw(rng, 20, 3, 0.6)),
        case("exactly full", "edges", 4, [*fill, *[["get", f"k{i}"] for i in range(4)], ["size"]]),
        case("put again is use", "edges", 4, [*fill, ["put", "k0", 9], ["put", "x", 1], ["get", "k0"], ["get", "k1"]]),
        case("get is use", "edges", 4, [*fill, ["get", "k0"], ["put", "x", 1], ["get", "k0"], ["get", "k1"]]),
        case("a miss is no use", "edges", 4, [*fill, ["get", "z"], ["put", "x", 1], ["get", "k0"], ["get", "k1"]]),
        case("a key named size", "edges", 2, [["put", "size", 5], ["get", "size"], ["get", "put"], ["size"]]),
        case("zero is a value", "edges", 2, [["put", "a", 0], ["get", "a"], ["get", "b"], ["size"]]),
    ]
    touched: Operations = [["put", f"k{i}", i] for i in range(12_000)]
    touched += [["get", f"k{rng.randrange(6_000, 12_000)}"] for _ in range(20_000)]
    made += [
        case("large", "large", 3_000, draw(rng, 30_000, 9_000, 0.6)),
        case("large, all hits", "large", 12_000, touched),
    ]
    return made


def judge(case: Case, outcome: StepOutcome) -> bool:
    return same_data(outcome.value, case.expected)

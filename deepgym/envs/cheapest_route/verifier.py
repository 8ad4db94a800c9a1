"""Any route with the lowest price is right; the oracle relaxes roads round by round (Bellman-Ford) with a work list."""

import itertools
import random
from collections import deque

from deepgym.compare import is_int, is_list_of_ints
from deepgym.models import Case
from deepgym.sandbox.base import StepOutcome

Roads = list[list[int]]


def lowest_price(count: int, roads: Roads, start: int, goal: int) -> int | None:
    leaving: list[list[tuple[int, int]]] = [[] for _ in range(count)]
    for a, b, price in roads:
        leaving[a].append((b, price))
    price_to: list[float] = [float("inf")] * count
    price_to[start] = 0
    waiting, queued = deque([start]), {start}
    while waiting:
        town = waiting.popleft()
        queued.discard(town)
        for neighbour, price in leaving[town]:
            if price_to[town] + price < price_to[neighbour]:
                price_to[neighbour] = price_to[town] + price
                if neighbour not in queued:
                    waiting.append(neighbour)
                    queued.add(neighbour)
    return None if price_to[goal] == float("inf") else int(price_to[goal])


def case(name: str, group: str, count: int, roads: Roads, start: int, goal: int) -> Case:
    return Case(name, lowest_price(count, roads, start, goal), args=(count, roads, start, goal), group=group)


def examples() -> list[Case]:
    roads = [[0, 1, 5], [1, 2, 1], [0, 2, 9]]
    return [
        Case("example 1", [6, [0, 1, 2]], args=(3, roads, 0, 2), hidden=False),
        Case("example 2", [], args=(3, roads, 2, 0), hidden=False),
    ]


def draw(rng: random.Random, count: int, roads: int, highest: int) -> Roads:
    return [[rng.randrange(count), rng.randrange(count), rng.randint(1, highest)] for _ in range(roads)]


def ladder(rng: random.Random, rungs: int) -> Roads:
    """Two ways from each rung to the next, so 2**rungs routes; the dear direct road is listed first."""
    roads = [[0, rungs * 2, 100 * rungs]]
    for i in range(rungs):
        low, mid, high = 2 * i, 2 * i + 1, 2 * i + 2
        roads += [[low, high, rng.randint(9, 30)], [low, mid, rng.randint(1, 9)], [mid, high, rng.randint(1, 9)]]
    return roads


def cases(rng: random.Random) -> list[Case]:
    made = []
    for i in range(8):
        roads = draw(rng, 7, 16 if i % 2 else 6, 9)
        made.append(case(f"small {i}", "small", 7, roads, 0, 6))
    made += [case("small ladder", "small", 9, ladder(rng, 4), 0, 8)]
    made += [
        case("already there", "edges", 4, draw(rng, 4, 6, 9), 2, 2),
        case("no roads", "edges", 2, [], 0, 1),
        case("wrong way only", "edges", 3, [[2, 1, 1], [1, 0, 1]], 0, 2),
        case("free roads", "edges", 4, [[0, 3, 1], [0, 1, 0], [1, 2, 0], [2, 3, 0]], 0, 3),
        case("twin roads", "edges", 2, [[0, 1, 7], [0, 1, rng.randint(1, 6)]], 0, 1),
        case("more towns, less money", "edges", 5, [[0, 4, 50], [0, 1, 9], [1, 2, 9], [2, 3, 9], [3, 4, 9]], 0, 4),
    ]
    made += [
        case("large ladder", "large", 601, ladder(rng, 300), 0, 600),
        case("large", "large", 3_000, [*draw(rng, 3_000, 11_000, 1_000), *ladder(rng, 300)], 0, 2_999),
        case("large, no route", "large", 3_000, draw(rng, 2_999, 12_000, 1_000), 0, 2_999),
    ]
    return made


def judge(case: Case, outcome: StepOutcome) -> bool:
    count, roads, start, goal = case.args
    lowest = case.expected
    if isinstance(lowest, list):  # a shown example carries the answer itself
        lowest = lowest[0] if lowest else None
    answer = outcome.value
    if lowest is None:
        return answer == []
    if not isinstance(answer, list) or len(answer) != 2 or not is_int(answer[0], lowest, lowest):
        return False
    towns = answer[1]
    if not is_list_of_ints(towns, 0, count - 1) or not towns or towns[0] != start or towns[-1] != goal:
        return False
    cheapest: dict[tuple[int, int], int] = {}
    for a, b, price in roads:
        cheapest[a, b] = min(price, cheapest.get((a, b), price))
    steps = list(itertools.pairwise(towns))
    return all(step in cheapest for step in steps) and sum(cheapest[step] for step in steps) == lowest

"""Mazes with doors; the oracle spreads a set of places step by step until the goal is in it."""

import random

from deepgym.compare import stdout_is
from deepgym.models import Case
from deepgym.sandbox.base import StepOutcome

Place = tuple[int, int]


def steps(rows: list[str]) -> int:
    free = {(r, c): mark for r, row in enumerate(rows) for c, mark in enumerate(row) if mark != "#"}
    doors: dict[str, list[Place]] = {}
    for place, mark in free.items():
        if mark.isdigit():
            doors.setdefault(mark, []).append(place)
    start = next(place for place, mark in free.items() if mark == "S")
    goal = next(place for place, mark in free.items() if mark == "G")
    reached, edge, count = {start}, {start}, 0
    while edge and goal not in reached:
        stepped = {(r + dr, c + dc) for r, c in edge for dr, dc in ((1, 0), (-1, 0), (0, 1), (0, -1))} & free.keys()
        landed = set()
        for place in stepped:
            pair = doors.get(free[place])
            landed.add(place if pair is None else pair[1 - pair.index(place)])
        edge = landed - reached
        reached |= landed
        count += 1
    return count if goal in reached else -1


def case(name: str, group: str, rows: list[str], hidden: bool = True) -> Case:
    return Case(name, str(steps(rows)), stdin="".join(f"{row}\n" for row in rows).encode(), group=group, hidden=hidden)


def examples() -> list[Case]:
    return [
        case("example 1", "small", ["S.#", ".#G", "..."], hidden=False),
        case("example 2", "small", ["S1#1G"], hidden=False),
    ]


def draw(rng: random.Random, height: int, width: int, walls: float, doors: int) -> list[str]:
    grid = [["#" if rng.random() < walls else "." for _ in range(width)] for _ in range(height)]
    marks = ["S", "G", *[str(i) for i in range(doors) for _ in range(2)]]
    places = rng.sample([(r, c) for r in range(height) for c in range(width)], len(marks))
    for (r, c), mark in zip(places, marks, strict=True):
        grid[r][c] = mark
    return ["".join(row) for row in grid]


def snake(height: int, width: int) -> list[str]:
    """One long corridor that turns at every second row."""
    rows = ["." * width if r % 2 == 0 else ("#" * (width - 1) + "." if r % 4 == 1 else "." + "#" * (width - 1))
            for r in range(height)]  # fmt: skip
    rows[0] = "S" + rows[0][1:]
    rows[-1] = rows[-1][:-1] + "G" if (height - 1) % 4 == 0 else "G" + rows[-1][1:]
    return rows


def cases(rng: random.Random) -> list[Case]:
    made = [case(f"small {i}", "small", draw(rng, 5, 6, 0.25, i % 3)) for i in range(6)]
    made += [
        case("neighbours", "edges", ["SG"]),
        case("walled in", "edges", ["S#.", "##.", "..G"]),
        case("only by door", "edges", ["S.3##", "#####", "##3.G"]),
        case("a door in the way", "edges", ["S4.G", "##..", "4#.."]),
        case("a column", "edges", ["S", *["."] * rng.randint(2, 7), "G"]),
    ]
    made += [
        case("large, open", "large", draw(rng, 150, 150, 0.15, 4)),
        case("large corridor", "large", snake(149, 150)),
        case("large corridor upwards", "large", snake(149, 150)[::-1]),
        case("large, one row", "large", ["S" + "." * rng.randint(100, 147) + "G"]),
        case(
            "large, only by door",
            "large",
            [row.replace("G", "5") for row in snake(73, 150)]
            + ["#" * 150]
            + [row.replace("S", "5") for row in snake(75, 150)],
        ),
        case("large, dense", "large", draw(rng, 150, 150, 0.36, 10)),
    ]
    return made


def judge(case: Case, outcome: StepOutcome) -> bool:
    return stdout_is(outcome, case.expected)

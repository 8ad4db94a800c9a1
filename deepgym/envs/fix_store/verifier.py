"""Shop sessions; the oracle keeps one entry for every single piece, oldest first."""

import random
from collections import Counter, deque
from itertools import groupby

from deepgym.compare import same_lines
from deepgym.models import Case
from deepgym.sandbox.base import StepOutcome


def price_of(pieces: list[int], lots: list[int]) -> int:
    """`pieces`: cents of each piece taken of one article; `lots` numbers the price levels they came from."""
    total = 0
    for _, run in groupby(zip(lots, pieces, strict=True), key=lambda pair: pair[0]):
        cents = [piece for _, piece in run]
        total += (sum(cents) * 95 * 2 + 100) // 200 if len(cents) >= 10 else sum(cents)
    return total


def run(commands: list[str]) -> str:
    shelf: dict[str, deque[int]] = {}
    printed = []
    for command in commands:
        word, *rest = command.split()
        if word == "add":
            shelf.setdefault(rest[0], deque()).extend([int(rest[2])] * int(rest[1]))
        elif word == "list":
            printed.append(" ".join(f"{name}:{len(shelf[name])}" for name in sorted(shelf) if shelf[name]))
        else:
            wanted = {name: int(count) for name, count in (pair.split("=") for pair in rest)}
            missing = sorted(name for name, count in wanted.items() if len(shelf.get(name, ())) < count)
            if missing:
                printed.append(" ".join(["missing", *missing]))
                continue
            total = 0
            for name, count in wanted.items():
                pieces = [shelf[name].popleft() for _ in range(count)]
                for cents, number in Counter(pieces).items():
                    total += price_of([cents] * number, [0] * number)
            printed.append(f"paid {total - 1_000 if total >= 100_000 else total}")
    return "".join(f"{line}\n" for line in printed)


def case(name: str, group: str, commands: list[str], hidden: bool = True) -> Case:
    stdin = "".join(f"{command}\n" for command in commands)
    return Case(name, run(commands), stdin=stdin.encode(), group=group, hidden=hidden)


def draw(rng: random.Random, names: list[str], count: int) -> list[str]:
    """Prices rise from purchase to purchase, so that one price is one purchase."""
    commands, cents = [], dict.fromkeys(names, 0)
    for _ in range(count):
        name, roll = rng.choice(names), rng.random()
        if roll < 0.45:
            cents[name] += rng.randint(1, 40)
            commands.append(f"add {name} {rng.randint(1, 25)} {cents[name]}")
        elif roll < 0.97:
            some = rng.sample(names, rng.randint(1, min(3, len(names))))
            commands.append("order " + " ".join(f"{other}={rng.randint(1, 18)}" for other in some))
        else:
            commands.append("list")
    return [*commands, "list"]


def examples() -> list[Case]:
    return [case("example 1", "small", ["add tea 5 120", "order tea=2", "order tea=4", "list"], hidden=False)]


def cases(rng: random.Random) -> list[Case]:
    made = [case(f"small {i}", "small", draw(rng, ["tea", "rice", "salt"], 14)) for i in range(4)]
    cents = 2 * rng.randint(5, 40) + 1
    made += [
        case("ten pieces", "edges", [f"add a 40 {cents}", "order a=9", "order a=10", "order a=11", "list"]),
        case("exactly 100000", "edges", ["add a 9 10000", "add b 1 10000", "order a=9 b=1", "list"]),
        case("just below", "edges", ["add a 9 10000", "add b 1 9999", "order a=9 b=1"]),
        case("oldest first", "edges", [f"add a 3 {cents}", "add a 3 1000", "order a=4", "order a=2", "order a=1"]),
        case("unknown articles", "edges", ["order z=1 b=2 a=1", "add a 1 5", "order a=1 b=1", "order a=1", "list"]),
        case("nothing is taken when some is missing", "edges", ["add a 5 7", "order a=5 b=1", "list", "order a=5"]),
    ]
    names = [f"article{i}" for i in range(30)]
    many = [f"add a 1 {price}" for price in range(1, 9_000)] + ["order a=2"] * 4_400
    # Sums around the one from which they are reduced, 9 x 10,000 + b.
    many += [line for b in (9_999, 10_000, 10_001) for line in ("add s 9 10000", f"add t 1 {b}", "order s=9 t=1")]
    many += ["list"]
    return [*made, case("large", "large", draw(rng, names, 9_000)), case("large, many prices", "large", many)]


def judge(case: Case, outcome: StepOutcome) -> bool:
    return same_lines(outcome.stdout, case.expected)

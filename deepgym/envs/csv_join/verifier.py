"""Joined tables; totals are added up while the orders are drawn."""

import random

from deepgym.compare import lines_of, stdout_is
from deepgym.models import Case
from deepgym.sandbox.base import StepOutcome

Customer = tuple[str, str, str]
Order = tuple[str, int]


def case(name: str, group: str, customers: list[Customer], orders: list[Order], hidden: bool = True) -> Case:
    amounts: dict[str, list[int]] = {identity: [] for identity, _, _ in customers}
    ignored = 0
    for customer, amount in orders:
        if customer in amounts:
            amounts[customer].append(amount)
        else:
            ignored += 1
    rows = [(sum(amounts[i]), who, city, len(amounts[i])) for i, who, city in customers if amounts[i]]
    rows.sort(key=lambda row: (-row[0], row[1].encode()))
    totals = ["name,city,orders,total", *(f"{who},{city},{count},{total}" for total, who, city, count in rows)]
    left = "".join(f"{line}\n" for line in ["id,name,city", *map(",".join, customers)])
    right = "".join(f"{i},{c},{a}\n" for i, (c, a) in enumerate(orders, 1))
    files = {"customers.csv": left.encode(), "orders.csv": f"order,customer,amount\n{right}".encode()}
    return Case(name, (totals, str(ignored)), files=files, collect=("totals.csv",), group=group, hidden=hidden)


def draw(rng: random.Random, customers: int, orders: int, span: int) -> tuple[list[Customer], list[Order]]:
    numbers = rng.sample(range(1, 10 * customers + 10), customers)
    cities = ["Oslo", "New York", "S\u00e3o Paulo", "Bonn"]
    people = [(str(n), f"{rng.choice('ABCabc')}. Person {n}", rng.choice(cities)) for n in numbers]
    known = [str(n) for n in numbers] or ["1"]
    drawn = [
        (rng.choice(known) if rng.random() < 0.9 else f"0{rng.choice(known)}", rng.randint(-span // 4, span))
        for _ in range(orders)
    ]
    return people, drawn


def examples() -> list[Case]:
    return [
        case("example 1", "small", [("7", "Ann", "Oslo"), ("8", "Bob", "Bonn")], [("7", 5), ("9", 1)], hidden=False)
    ]


def cases(rng: random.Random) -> list[Case]:
    made = [case(f"small {i}", "small", *draw(rng, 5, 12, 30)) for i in range(3)]
    amount = rng.randint(2, 50)
    people: list[Customer] = [("1", "Zoe", "A"), ("11", "Ann", "B"), ("2", "ann", "C")]
    made += [
        case("no orders", "edges", people, []),
        case("no customers", "edges", [], [("1", amount)] * 3),
        case("ids that contain each other", "edges", people, [("1", amount), ("11", 2 * amount), ("111", 5), ("1", 1)]),
        case("equal totals", "edges", people, [("1", amount), ("11", amount), ("2", amount)]),
        case("total of zero, and below", "edges", people, [("1", amount), ("1", -amount), ("2", -3), ("11", -3)]),
    ]
    made += [
        case("large", "large", *draw(rng, 3_000, 6_000, 900)),
        case("large, dense", "large", *draw(rng, 200, 4_000, 9)),
    ]
    return made


def judge(case: Case, outcome: StepOutcome) -> bool:
    totals, ignored = case.expected
    written = outcome.files.get("totals.csv")
    return written is not None and lines_of(written) == totals and stdout_is(outcome, ignored)

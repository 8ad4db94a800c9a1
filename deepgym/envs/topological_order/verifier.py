"""Any order that keeps the rules is right; `expected` only says whether one exists."""

import random

from deepgym.compare import is_permutation
from deepgym.models import Case
from deepgym.sandbox.base import StepOutcome

Rules = list[list[int]]


def case(name: str, group: str, count: int, rules: Rules, possible: bool) -> Case:
    return Case(name, possible, args=(count, rules), group=group)


def examples() -> list[Case]:
    return [
        Case("example 1", [2, 0, 1], args=(3, [[2, 0], [0, 1]]), hidden=False),
        Case("example 2", [], args=(2, [[0, 1], [1, 0]]), hidden=False),
    ]


def possible_rules(rng: random.Random, count: int, rules: int) -> Rules:
    """Rules that a hidden random order keeps."""
    order = rng.sample(range(count), count)
    places = (sorted(rng.sample(range(count), 2)) for _ in range(rules))
    return [[order[first], order[second]] for first, second in places]


def with_cycle(rng: random.Random, rules: Rules, length: int) -> Rules:
    tasks = rng.sample(sorted({task for rule in rules for task in rule}), length)
    cycle = [[first, second] for first, second in zip(tasks, tasks[1:] + tasks[:1], strict=True)]
    return rng.sample(rules + cycle, len(rules) + length)


def cases(rng: random.Random) -> list[Case]:
    made = []
    for i in range(4):
        rules = possible_rules(rng, 7, 9)
        made.append(case(f"small {i}", "small", 7, rules, True))
        made.append(case(f"small cycle {i}", "small", 7, with_cycle(rng, rules, 3), False))
    chain = [[i + 1, i] for i in range(30)]
    made += [
        case("one task", "edges", 1, [], True),
        case("waits for itself", "edges", 3, [[0, 1], [1, 1]], False),
        case("rules given twice", "edges", 3, [[2, 1], [2, 1], [1, 0]], True),
        case("no rules", "edges", rng.randint(3, 9), [], True),
        case("a chain backwards", "edges", 31, chain, True),
        case("a cycle behind a chain", "edges", 34, [*chain, [31, 32], [32, 33], [33, 31]], False),
    ]
    rules = possible_rules(rng, 6_000, 14_000)
    made += [
        case("large", "large", 6_000, rules, True),
        case("large cycle", "large", 6_000, with_cycle(rng, rules, 5), False),
        case("long chain", "large", 6_000, rng.sample([[i + 1, i] for i in range(5_999)], 5_999), True),
    ]
    return made


def judge(case: Case, outcome: StepOutcome) -> bool:
    count, rules = case.args
    order = outcome.value
    if case.expected in (False, []):
        return order == []
    if not is_permutation(order, range(count)):
        return False
    place = {task: i for i, task in enumerate(order)}
    return all(place[first] < place[second] for first, second in rules)

"""Bracket matching; texts are built so that the wrong place is known, the oracle then confirms it."""

import random

from deepgym.compare import is_int
from deepgym.models import Case
from deepgym.sandbox.base import StepOutcome

PAIRS = {")": "(", "]": "[", "}": "{"}


def wrong_place(text: str) -> int:
    open_places: list[int] = []
    for place, character in enumerate(text):
        if character in "([{":
            open_places.append(place)
        elif character in PAIRS and (not open_places or text[open_places.pop()] != PAIRS[character]):
            return place
    return open_places[-1] if open_places else -1


def case(name: str, group: str, text: str, hidden: bool = True) -> Case:
    return Case(name, wrong_place(text), args=(text,), group=group, hidden=hidden)


def examples() -> list[Case]:
    return [
        case("example 1", "small", "f(a[0])", hidden=False),
        case("example 2", "small", "{(x]}", hidden=False),
        case("example 3", "small", "((b)", hidden=False),
    ]


def matched(rng: random.Random, pairs: int) -> str:
    """A random matched text."""
    out: list[str] = []
    stack: list[str] = []
    left = pairs
    while left or stack:
        if left and (not stack or rng.random() < 0.55):
            kind = rng.choice(["()", "[]", "{}"])
            out.append(kind[0] + rng.choice(["", "", "x", " y"]))
            stack.append(kind[1])
            left -= 1
        else:
            out.append(stack.pop())
    return "".join(out)


def spoiled(rng: random.Random, text: str) -> str:
    places = [place for place, character in enumerate(text) if character in "()[]{}"]
    place = rng.choice(places[len(places) // 3 :])
    return text[:place] + rng.choice(["", ")", "}", "("]) + text[place + 1 :]


def cases(rng: random.Random) -> list[Case]:
    made = [case(f"small matched {i}", "small", matched(rng, rng.randint(2, 6))) for i in range(3)]
    made += [case(f"small spoiled {i}", "small", spoiled(rng, matched(rng, rng.randint(3, 7)))) for i in range(6)]
    made += [
        case("empty", "edges", ""),
        case("no brackets", "edges", "plain text"),
        case("closes nothing", "edges", "a)b("),
        case("only opening", "edges", "(" * rng.randint(3, 9)),
        case("first is wrong", "edges", "]" + matched(rng, 3)),
        case("crossed", "edges", "([)]"),
        case("open in front", "edges", "{" + matched(rng, 4)),
    ]
    deep = rng.randint(15_000, 18_000)
    made += [
        case("deep", "large", "(" * deep + ")" * deep),
        case("deep, wrong inside", "large", "([" * (deep // 2) + "])" * (deep // 4) + "}"),
        case("wide, matched", "large", matched(rng, 12_000)),
        case("wide, spoiled", "large", matched(rng, 5_000) + "[" + matched(rng, 5_000) + "(" + matched(rng, 500)),
    ]
    return made


def judge(case: Case, outcome: StepOutcome) -> bool:
    return is_int(outcome.value, case.expected, case.expected)

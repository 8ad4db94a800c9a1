"""Runs of equal characters: the list must spell the text again and have no two neighbouring runs of one character."""

import itertools
import random

from deepgym.compare import is_int
from deepgym.models import Case
from deepgym.sandbox.base import StepOutcome

LETTERS = "abAB01 \t\u00e9\u6570\U0001f600"


def case(name: str, group: str, text: str, hidden: bool = True) -> Case:
    runs = [[character, len(list(run))] for character, run in itertools.groupby(text)]
    return Case(name, runs, args=(text,), group=group, hidden=hidden)


def examples() -> list[Case]:
    return [case("example 1", "small", "aaab", hidden=False), case("example 2", "small", "xyyx", hidden=False)]


def text_of_runs(rng: random.Random, runs: int, longest: int) -> str:
    return "".join(rng.choice(LETTERS) * rng.randint(1, longest) for _ in range(runs))


def cases(rng: random.Random) -> list[Case]:
    made = [case(f"small {i}", "small", text_of_runs(rng, rng.randint(2, 9), 5)) for i in range(8)]
    made += [
        case("empty text", "edges", ""),
        case("one character", "edges", rng.choice(LETTERS)),
        case("one run", "edges", "z" * rng.randint(10, 99)),
        case("all different", "edges", "abcdefghij"),
        case("digits", "edges", "1" * 11 + "2" * 2 + "1"),
        case("ends with a single", "edges", "q" * rng.randint(2, 9) + "r"),
    ]
    made += [
        case("long runs", "large", text_of_runs(rng, 4, 100) + "s" * rng.randint(30_000, 40_000)),
        case("many runs", "large", text_of_runs(rng, 6_000, 3)),
        case("mixed", "large", text_of_runs(rng, 30, 1_500)),
    ]
    return made


def judge(case: Case, outcome: StepOutcome) -> bool:
    runs = outcome.value
    if not isinstance(runs, list) or len(runs) != len(case.expected):
        return False
    return all(
        isinstance(run, list) and len(run) == 2 and run[0] == character and is_int(run[1], length, length)
        for run, (character, length) in zip(runs, case.expected, strict=True)
    )

"""Levenshtein distance; the oracle is the bit-vector method of Myers (J. ACM 46, 1999), row by row in one integer."""

import random

from deepgym.compare import is_int
from deepgym.models import Case
from deepgym.sandbox.base import StepOutcome


def distance(first: str, second: str) -> int:
    if not first:
        return len(second)
    full, top = (1 << len(first)) - 1, 1 << (len(first) - 1)
    places: dict[str, int] = {}
    for i, character in enumerate(first):
        places[character] = places.get(character, 0) | 1 << i
    plus, minus, score = full, 0, len(first)
    for character in second:
        match = places.get(character, 0)
        vertical = match | minus
        horizontal = (((match & plus) + plus) ^ plus) | match
        up = minus | ~(horizontal | plus) & full
        down = plus & horizontal
        score += bool(up & top) - bool(down & top)
        up, down = (up << 1 | 1) & full, down << 1 & full
        plus = (down | ~(vertical | up)) & full
        minus = up & vertical
    return score


def case(name: str, group: str, first: str, second: str, hidden: bool = True) -> Case:
    return Case(name, distance(first, second), args=(first, second), group=group, hidden=hidden)


def examples() -> list[Case]:
    return [
        case("example 1", "small", "kitten", "sitting", hidden=False),
        case("example 2", "small", "", "abc", hidden=False),
    ]


def word(rng: random.Random, length: int, letters: str) -> str:
    return "".join(rng.choice(letters) for _ in range(length))


def edited(rng: random.Random, text: str, edits: int, letters: str) -> str:
    characters = list(text)
    for _ in range(edits):
        place = rng.randrange(len(characters))
        characters[place : place + rng.randint(0, 1)] = rng.choice(["", rng.choice(letters), rng.choice(letters)])
    return "".join(characters)


def cases(rng: random.Random) -> list[Case]:
    made = []
    for i in range(8):
        text = word(rng, rng.randint(4, 8), "abcd")
        made.append(case(f"small {i}", "small", text, edited(rng, text, 4, "abcd")))
    text = word(rng, 12, "abcdef")
    made += [
        case("both empty", "edges", "", ""),
        case("second empty", "edges", text, ""),
        case("equal", "edges", text, text),
        case("nothing in common", "edges", "aaaa", "bbbbbb"),
        case("shifted", "edges", text, text[1:] + "z"),
        case("last character", "edges", text, text[:-1] + "z"),
    ]
    for i in range(3):
        text = word(rng, rng.randint(330, 380), "abcdef")
        made.append(case(f"large {i}", "large", text, edited(rng, text, 40 + 60 * i, "abcdef")[:400]))
    text = word(rng, 350, "abcdef")
    made += [
        case("large, front cut off", "large", text, text[rng.randint(20, 60) :]),
        case("large, back cut off", "large", text, text[: -rng.randint(20, 60)]),
        case("large, second empty", "large", text, ""),
    ]
    return made


def judge(case: Case, outcome: StepOutcome) -> bool:
    return is_int(outcome.value, case.expected, case.expected)

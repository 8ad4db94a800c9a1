"""Justified lines, compared exactly, as spaces are the point of the task."""

import random

from deepgym.compare import text_of
from deepgym.models import Case
from deepgym.sandbox.base import StepOutcome


def stretched(words: list[str], width: int) -> str:
    """Gap k of g gets the floor of what remains, from the right, so that the left ones are the wider."""
    line, spaces = words[-1], width - sum(map(len, words))
    for gaps in range(len(words) - 1, 0, -1):
        share = spaces // gaps
        line, spaces = words[gaps - 1] + " " * share + line, spaces - share
    return line


def justify(width: int, words: list[str]) -> list[str]:
    rows: list[list[str]] = []
    used = width + 1
    for word in words:
        if used + 1 + len(word) > width:
            rows.append([])
            used = -1
        rows[-1].append(word)
        used += 1 + len(word)
    return [stretched(row, width) for row in rows[:-1]] + [" ".join(row) for row in rows[-1:]]


def case(name: str, group: str, width: int, words: list[str], gap: str = " ", hidden: bool = True) -> Case:
    expected = "".join(f"{line}\n" for line in justify(width, words))
    return Case(name, expected, stdin=f"{width}\n{gap.join(words)}\n".encode(), group=group, hidden=hidden)


def examples() -> list[Case]:
    words = ["every", "line", "but", "the", "last", "is", "stretched"]
    return [case("example 1", "small", 14, words, hidden=False)]


def draw(rng: random.Random, count: int, longest: int) -> list[str]:
    return ["".join(rng.choice("abcdefgh") for _ in range(rng.randint(1, longest))) for _ in range(count)]


def cases(rng: random.Random) -> list[Case]:
    made = [case(f"small {i}", "small", rng.randint(11, 19), draw(rng, rng.randint(9, 15), 7)) for i in range(5)]
    words = draw(rng, 9, 5)
    made += [
        case("one word", "edges", 9, words[:1]),
        case("one word a line", "edges", 6, ["abcdef", "abcdef", "abcde", "ab"]),
        case("fits exactly", "edges", 8, ["abc", "defg", "hi", "jklmn", "op"]),
        case("wide white space", "edges", 12, words, gap=" \n\n\t "),
        case("one line", "edges", 80, words),
        case("uneven gaps", "edges", 13, ["a", "bb", "c", "dddd", "eeeeeeeee", "f"]),
    ]
    made += [
        # The first lines: two words that are one character too wide together, and two that just fit.
        case("large", "large", 72, ["a" * 36, "b" * 36, *draw(rng, 19_998, 12)]),
        case("large, narrow", "large", 15, ["a" * 7, "b" * 7, *draw(rng, 11_998, 15)]),
    ]
    return made


def judge(case: Case, outcome: StepOutcome) -> bool:
    # Only a missing final line end is forgiven.
    return text_of(outcome.stdout).removesuffix("\n") == case.expected.removesuffix("\n")

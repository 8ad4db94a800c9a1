"""Word counts, from texts that are put together out of known words."""

import random
import re

from deepgym.compare import stdout_is
from deepgym.models import Case
from deepgym.sandbox.base import StepOutcome

SEPARATORS = (" ", " ", " ", "\n", ", ", ". ", "-", "'", "1", "\t", " \u00e9 ")


def case(name: str, group: str, top: int, text: str, hidden: bool = True) -> Case:
    counts: dict[str, int] = {}
    for word in re.findall("[a-z]+", text.lower().replace("\u00c9", " ")):
        counts[word] = counts.get(word, 0) + 1
    ranked = sorted(counts, key=lambda word: (-counts[word], word))[:top]
    expected = "".join(f"{word} {counts[word]}\n" for word in ranked)
    return Case(name, expected, stdin=f"{top}\n{text}".encode(), group=group, hidden=hidden)


def examples() -> list[Case]:
    return [case("example 1", "small", 2, "The cat and the dog.\nThe end, and so on.\n", hidden=False)]


def vocabulary(rng: random.Random, size: int, longest: int) -> list[str]:
    letters = "abcdefghijklmnopqrstuvwxyz"
    return ["".join(rng.choice(letters) for _ in range(rng.randint(1, longest))) for _ in range(size)]


def text_of(rng: random.Random, words: list[str], count: int) -> str:
    drawn = (rng.choice(words) for _ in range(count))
    cased = (word.upper() if rng.random() < 0.1 else word.title() if rng.random() < 0.1 else word for word in drawn)
    return "".join(word + rng.choice(SEPARATORS) for word in cased) + "\n"


def cases(rng: random.Random) -> list[Case]:
    made = []
    for i in range(4):
        words = vocabulary(rng, 6, 4)
        made.append(case(f"small {i}", "small", rng.randint(2, 4), text_of(rng, words, 30)))
    word = vocabulary(rng, 1, 6)[0]
    made += [
        case("no words", "edges", 3, "12 + 34 = 46\n"),
        case("fewer than asked", "edges", 10, f"{word} {word} x\n"),
        case("ties", "edges", 3, "d c b a d c b a\n"),
        case("no final newline", "edges", 1, f"{word} {word}Z {word}"),
        case("no text", "edges", 2, ""),
    ]
    words = vocabulary(rng, 15_000, 12)
    made += [case("large", "large", 50, text_of(rng, words, 40_000))]
    made += [case("large, all", "large", 40_000, text_of(rng, vocabulary(rng, 9_000, 9), 20_000))]
    return made


def judge(case: Case, outcome: StepOutcome) -> bool:
    return stdout_is(outcome, case.expected)

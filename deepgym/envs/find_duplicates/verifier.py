"""Groups of equal files, known because the contents are dealt out group by group."""

import random

from deepgym.compare import text_of
from deepgym.models import Case
from deepgym.sandbox.base import StepOutcome

FOLDERS = ("", "a/", "a/b/", "B/", "two words/", "z.d/")


def case(name: str, group: str, groups: list[tuple[bytes, list[str]]], hidden: bool = True) -> Case:
    files = {f"tree/{path}": data for data, paths in groups for path in paths}
    lines = ["|".join(sorted(f"tree/{path}" for path in paths)) for _, paths in groups if len(paths) > 1]
    expected = "".join(f"{line}\n" for line in sorted(lines, key=lambda line: line.split("|")[0]))
    return Case(name, expected, files=files, group=group, hidden=hidden)


def deal(rng: random.Random, sizes: list[int], length: int) -> list[tuple[bytes, list[str]]]:
    """Contents differ in one byte only, so that sizes and beginnings tell nothing."""
    number, base = 0, rng.randbytes(length)
    groups = []
    for i, size in enumerate(sizes):
        paths = []
        for _ in range(size):
            paths.append(f"{rng.choice(FOLDERS)}f{rng.randint(0, 99)}_{number}{rng.choice(['', '.txt', ' copy'])}")
            number += 1
        groups.append((base + i.to_bytes(2, "big"), paths))
    return groups


def examples() -> list[Case]:
    return [case("example 1", "small", [(b"x\n", ["b", "a/c"]), (b"y\n", ["d"])], hidden=False)]


def cases(rng: random.Random) -> list[Case]:
    made = [case(f"small {i}", "small", deal(rng, [1, 2, 1, 3], 5)) for i in range(3)]
    made += [
        case("all different", "edges", deal(rng, [1] * 4, 9)),
        case("all equal", "edges", deal(rng, [5], 30)),
        case("empty files", "edges", [(b"", ["e1", "a/e2", "two words/e 3"]), (b"\n", ["n"])]),
        case("a final newline more", "edges", [(b"t", ["t1", "t2"]), (b"t\n", ["T1", "T2"])]),
        case("NUL bytes", "edges", [(b"a\0b", ["p", "q"]), (b"a\0c", ["r", "s"]), (b"a", ["u"])]),
        case("order of capitals", "edges", [(b"1", ["B/x", "a/x"]), (b"2", ["a/b/x", "B/y"])]),
    ]
    made += [case(f"large {i}", "large", deal(rng, [1] * 60 + [2] * 20 + [3] * 10 + [8], 2_000)) for i in range(2)]
    return made


def judge(case: Case, outcome: StepOutcome) -> bool:
    return text_of(outcome.stdout).removesuffix("\n") == case.expected.removesuffix("\n")

"""Sorted folders: the moved files are brought back, with the places they must have left."""

import random
from collections import Counter

from deepgym.compare import stdout_is
from deepgym.models import Case
from deepgym.sandbox.base import StepOutcome

STEMS = ("photo", "my photo", "a", "v1.2", "report final", "-x", "tar", "don't", "100%", "na\u00efve")
EXTENSIONS = (".jpg", ".JPG", ".Jpg", ".txt", ".md", ".tar.gz", ".PDF", "", ".7z", ".c")


def folder_of(name: str) -> str:
    dot = name.rfind(".")
    return name[dot + 1 :].lower() if dot > 0 else "none"


def case(name: str, group: str, names: list[str], hidden: bool = True) -> Case:
    contents = {file: f"{i}: {file}\n".encode() for i, file in enumerate(names)}
    moved = {f"downloads/{folder_of(file)}/{file}": data for file, data in contents.items()}
    files = {f"downloads/{file}": data for file, data in contents.items()}
    counts = Counter(folder_of(file) for file in names)
    rows = "".join(f"{folder} {counts[folder]}\n" for folder in sorted(counts))
    if not files:
        files = {"downloads/.keep": b""}
        moved, rows = {"downloads/none/.keep": b""}, "none 1\n"
    return Case(name, (rows, moved), files=files, collect=(*moved, *files), group=group, hidden=hidden)


def draw(rng: random.Random, count: int, offset: int) -> list[str]:
    names = [f"{rng.choice(STEMS)} {offset + i}{rng.choice(EXTENSIONS)}" for i in range(count)]
    return [name for name in names if not name.endswith(".")]


def examples() -> list[Case]:
    return [case("example 1", "small", ["a.TXT", "b.txt", "README"], hidden=False)]


def cases(rng: random.Random) -> list[Case]:
    made = [case(f"small {i}", "small", draw(rng, rng.randint(5, 9), 10 * i)) for i in range(3)]
    number = rng.randint(1, 99)
    made += [
        case("only one hidden file", "edges", []),
        case("dot files", "edges", [".profile", ".vimrc", f".config{number}.yml", "plain"]),
        case("several dots", "edges", [f"a.b.{number}.TAR", "x..y", "v1.0.Zip"]),
        case("spaces and dashes", "edges", ["two  spaces.txt", "-n", "--help.md", "a b.c d", f"it's {number}.txt"]),
    ]
    made += [case(f"large {i}", "large", draw(rng, 100 + 15 * i, 1_000)) for i in range(2)]
    return made


def judge(case: Case, outcome: StepOutcome) -> bool:
    rows, moved = case.expected
    return dict(outcome.files) == moved and stdout_is(outcome, rows)

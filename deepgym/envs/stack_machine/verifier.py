"""Machine programs; the oracle turns each instruction into a Python closure before it runs any."""

import random
from collections.abc import Callable

from deepgym.compare import stdout_is
from deepgym.models import Case
from deepgym.sandbox.base import StepOutcome

ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "mod": lambda a, b: a % b,
}
NEEDS = {"add": 2, "sub": 2, "mul": 2, "mod": 2, "dup": 1, "swap": 2, "drop": 1, "store": 1, "jzero": 1, "print": 1}


def output_of(source: str) -> str:
    parsed = [(number, text.split(";")[0].split()) for number, text in enumerate(source.split("\n"), 1)]
    code = [(number, words[0], words[1] if len(words) > 1 else "") for number, words in parsed if words]
    labels = {name: place for place, (_, word, name) in enumerate(code) if word == "label"}
    stack: list[int] = []
    variables: dict[str, int] = {}
    printed: list[str] = []
    place = 0
    while place < len(code):
        number, word, name = code[place]
        place += 1
        if len(stack) < NEEDS.get(word, 0) or (word == "mod" and stack[-1] == 0):
            printed.append(f"error at line {number}")
            break
        if word == "push":
            stack.append(int(name))
        elif word in ARITHMETIC:
            second = stack.pop()
            stack.append(ARITHMETIC[word](stack.pop(), second))
        elif word == "dup":
            stack.append(stack[-1])
        elif word == "swap":
            stack[-2:] = stack[:-3:-1]
        elif word == "load":
            stack.append(variables.get(name, 0))
        elif word == "halt":
            break
        elif word == "jump":
            place = labels[name]
        elif word != "label":
            value = stack.pop()
            if word == "store":
                variables[name] = value
            elif word == "jzero" and value == 0:
                place = labels[name]
            elif word == "print":
                printed.append(str(value))
    return "".join(f"{line}\n" for line in printed)


def case(name: str, group: str, source: str, hidden: bool = True) -> Case:
    return Case(name, output_of(source), stdin=source.encode(), group=group, hidden=hidden)


def examples() -> list[Case]:
    return [
        case("example 1", "small", "push 7\npush 3\nsub ; 7 - 3\ndup\nmul\nprint\n", hidden=False),
        case("example 2", "small", "push 1\n\nadd\n", hidden=False),
    ]


def straight(rng: random.Random, length: int) -> str:
    """Random instructions without jumps; most run to the end, some hit an empty stack."""
    lines = [f"push {rng.randint(-20, 20)}" for _ in range(4)]
    words = ["push", "push", "push", "add", "sub", "mul", "mod", "dup", "dup", "swap", "drop", "print"]
    for _ in range(length):
        word = rng.choice(words)
        lines.append(f"push {rng.randint(-20, 20)}" if word == "push" else word)
        if rng.random() < 0.1:
            lines.append(rng.choice(["", "; note", "store x", "load x"]))
    return "\n".join(lines) + "\n"


def countdown(start: int, body: str, padding: int) -> str:
    """Runs `body` `start` times, behind `padding` lines that are jumped over."""
    skipped = "".join(f"label unused{'a' * (i % 40)}{'b' * (i // 40)}\n" for i in range(padding))
    return (
        f"push {start}\nstore n\njump loop\n{skipped}label loop\nload n\njzero end\n{body}"
        "load n\npush 1\nsub\nstore n\njump loop\nlabel end\nload sum\nprint\n"
    )


def deep(rng: random.Random, length: int) -> str:
    """Random instructions on a stack of at least three values, which is then printed from top to bottom."""
    lines, depth = [f"push {value} ; {value}" for value in rng.sample(range(-99, 99), 9)], 9
    for _ in range(length):
        word = rng.choice(("push", "add", "sub", "mul", "mod", "dup", "swap", "drop", "store"))
        if word in ("push", "dup"):
            depth += 1
        elif word not in ("swap", "mod"):
            depth -= 1
        before = {"mod": [f"push {rng.choice((-97, -1, 1, 97))}"], "mul": ["push 97", "mod"]}.get(word, [])
        lines += [*before, {"push": f"push {rng.randint(-99, 99)}", "store": "store x"}.get(word, word)]
        while depth < 5:
            lines.append(rng.choice(("load x", f"push {rng.randint(2, 99)}")))
            depth += 1
    return "\n".join(lines + ["print"] * depth) + "\n"


def too_few(rng: random.Random) -> list[str]:
    """For each instruction a program that gives it just enough values, and then one too few."""
    start = countdown(rng.randint(3, 9), "load n\nprint\n", 5)
    programs = []
    for word, needs in NEEDS.items():
        line = f"{word} x" if word == "store" else f"{word} end" if word == "jzero" else word
        # What it leaves on the stack is dropped; `jzero` takes a 1, so that it goes on.
        left = {"swap": 2, "dup": 2, "add": 1, "sub": 1, "mul": 1, "mod": 1}.get(word, 0)
        enough, missing = "push 1\n" * needs + f"{line}\n" + "drop\n" * left, "push 1\n" * (needs - 1) + line
        programs.append(f"{start}{enough}{missing}\npush 1\nprint\n")
    return programs


def cases(rng: random.Random) -> list[Case]:
    made = [case(f"small {i}", "small", straight(rng, 25)) for i in range(5)]
    made += [case("small loop", "small", countdown(rng.randint(3, 9), "load sum\nload n\nadd\nstore sum\n", 2))]
    made += [
        case("modulo zero", "edges", f"push {rng.randint(1, 9)}\nprint\npush 5\npush 0\nmod\nprint\n"),
        case("negative modulo", "edges", "push -7\npush 3\nmod\nprint\npush 7\npush -3\nmod\nprint\n"),
        case("halt", "edges", f"push {rng.randint(1, 9)}\nprint\nhalt\npush 2\nprint\n"),
        case(
            "jump backwards", "edges", "jump b\nlabel a\npush 4\nprint\nhalt\nlabel b\npush 0\njzero a\npush 9\nprint\n"
        ),
        case("comments and blanks", "edges", "; start\n\npush 3;three\n  print  ; out\n\ndrop\n"),
        case("swap needs two", "edges", "push 1\nprint\npush 1\nswap\n"),
        case("unknown variable", "edges", "load never\nprint\n"),
    ]
    squares = "load n\ndup\nmul\npush 9973\nmod\nload sum\nadd\nstore sum\n"
    made += [
        case("large loop", "large", countdown(rng.randint(9_000, 11_000), squares, 1_200)),
        case("large output", "large", countdown(rng.randint(9_000, 11_000), "load n\nprint\n", 1_200)),
    ]
    made += [case(f"large, deep stack {i}", "large", deep(rng, 400)) for i in range(2)]
    made += [case(f"large, too few {i}", "large", program) for i, program in enumerate(too_few(rng))]
    made += [
        case("large, modulo zero", "large", deep(rng, 300) + "push 1\npush 1\nmod\nprint\npush 7\npush 0\nmod\nprint\n")
    ]
    return made


def judge(case: Case, outcome: StepOutcome) -> bool:
    return stdout_is(outcome, case.expected)

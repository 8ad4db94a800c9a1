"""Make the data of the example with a Python tool: questions that a program of one or two lines answers.

    python3 examples/tir/make_data.py [folder]

A prompt is plain text: three solved questions, then the question. The label names the environment that runs the episode
(`env_func`) and the task that grades it (`task`). No question stands in both files.
"""

import json
import math
import random
import sys
from collections.abc import Callable
from pathlib import Path

DEFAULT_FOLDER = Path("runs/data/tir")
NUM_TRAIN, NUM_TEST = 384, 32

# Solved questions: (question, program, result). The environment writes result blocks in just the form of `response`.
SHOWN = (
    ("What is 12 * 11?", "print(12 * 11)", "132"),
    ("What is the remainder of 75 divided by 8?", "print(75 % 8)", "3"),
    ("What is 81 - 37?", "print(81 - 37)", "44"),
)


def response(program: str, result: str) -> str:
    return f"```python\n{program}\n```\n```output\n{result}\n```\n\n\nThe answer is \\boxed{{{result}}}."


def prompt(question: str) -> str:
    """The solved questions, then this one. "User:" is also where an episode stops."""
    solved = (f"User: {shown}\nAssistant: {response(program, result)}\n\n" for shown, program, result in SHOWN)
    return "".join(solved) + f"User: {question}\nAssistant:"


Question = tuple[str, int]


def product(rng: random.Random) -> Question:
    a, b = rng.randint(12, 99), rng.randint(12, 99)
    return f"What is {a} * {b}?", a * b


def remainder(rng: random.Random) -> Question:
    a, b = rng.randint(200, 999), rng.randint(7, 19)
    return f"What is the remainder of {a} divided by {b}?", a % b


def divisor(rng: random.Random) -> Question:
    common = rng.randint(2, 12)
    a, b = common * rng.randint(3, 40), common * rng.randint(3, 40)
    return f"What is the greatest common divisor of {a} and {b}?", math.gcd(a, b)


def root(rng: random.Random) -> Question:
    number = rng.randint(500, 99999)
    return f"What is the square root of {number}, rounded down?", math.isqrt(number)


KINDS: tuple[Callable[[random.Random], Question], ...] = (product, remainder, divisor, root)


def make_rows() -> tuple[list[dict], list[dict]]:
    """Return (training rows, test rows): the kinds of question in turn, the same ones every time."""
    rng = random.Random(0)
    questions: dict[str, int] = {}
    while len(questions) < NUM_TRAIN + NUM_TEST:
        question, answer = KINDS[len(questions) % len(KINDS)](rng)
        questions.setdefault(question, answer)
    rows = []
    for number, (question, answer) in enumerate(questions.items()):
        label = {"uuid": f"tir-{number}", "env_func": "math_tir_async", "task": "math_tir", "gold_ans": str(answer)}
        rows.append({"prompt": prompt(question), "label": json.dumps(label)})
    return rows[:NUM_TRAIN], rows[NUM_TRAIN:]


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in zip(("train.jsonl", "test.jsonl"), make_rows(), strict=True):
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        print(f"{folder / name}: {len(rows)} rows")

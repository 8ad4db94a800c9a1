"""Make the data of the example with a Python tool: questions that a program of one or two lines answers.

    python3 examples/tir/make_data.py [folder]

A prompt is plain text: two solved questions, then the question. The label names the environment that runs the episode
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

# Solved questions: (question, program, result).
SHOWN = (
    ("What is 12 * 11?", "print(12 * 11)", "132"),
    ("What is the greatest common divisor of 12 and 18?", "import math\nprint(math.gcd(12, 18))", "6"),
)


def response(program: str, result: str) -> str:
    """A solution as an episode would have it. The environment ends its block with three line breaks, one token of their
    own; with a fourth behind them they are the same token here, where all of the text is tokenised at once."""
    return f"```python\n{program}\n```\n```output\n{result}\n```\n\n\n\nThe answer is \\boxed{{{result}}}."


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
    number = rng.randint(21, 330)
    return f"What is the square root of {number * number}?", number


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
    sys.path.append(str(Path(__file__).resolve().parents[1]))  # the folder of all examples
    from data_files import chosen_folder, write_splits

    write_splits(chosen_folder(DEFAULT_FOLDER), *make_rows())

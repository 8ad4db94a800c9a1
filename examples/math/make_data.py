"""Make the data of the single-turn example: sums and differences, to be answered in a box.

    python3 examples/math/make_data.py [folder]

The label is the plain answer; `examples/python/math_reward_func.py` compares it with the last box of a response.
"""

import json
import random
import sys
from pathlib import Path

DEFAULT_FOLDER = Path("runs/data/math")
NUM_TRAIN, NUM_TEST = 128, 24
SHOWN = (("2 + 5", 7), ("13 - 4", 9), ("6 + 6", 12))  # answered before the question, to show the form


def make_prompt(question: str) -> list[dict]:
    """Messages: some questions with their answers, then the question."""
    shown = [
        message
        for example, answer in SHOWN
        for message in (_asks(example), {"role": "assistant", "content": f"\\boxed{{{answer}}}"})
    ]
    return [*shown, _asks(question)]


def _asks(question: str) -> dict:
    return {"role": "user", "content": f"What is {question}? Answer in a box."}


def make_rows() -> tuple[list[dict], list[dict]]:
    """Return (training rows, test rows), the same ones every time; no question stands in both."""
    rng = random.Random(0)
    answers: dict[str, int] = {}
    while len(answers) < NUM_TRAIN + NUM_TEST:
        a, b = rng.randint(1, 9), rng.randint(1, 9)
        question, answer = rng.choice([(f"{a} + {b}", a + b), (f"{a + b} - {b}", a)])
        answers.setdefault(question, answer)
    rows = [{"prompt": make_prompt(question), "label": str(answer)} for question, answer in answers.items()]
    return rows[:NUM_TRAIN], rows[NUM_TRAIN:]


if __name__ == "__main__":
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else DEFAULT_FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in zip(("train.jsonl", "test.jsonl"), make_rows(), strict=True):
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        print(f"{folder / name}: {len(rows)} rows")

"""Make the data of the example with feedback: small functions to write, with examples to show and cases to hide.

    python3 examples/code_feedback/make_data.py [folder]

The prompt is plain text: one solved task, then the task, with the code block opened.
"""

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path

DEFAULT_FOLDER = Path("runs/data/code_feedback")
NUM_TRAIN, NUM_TEST = 192, 16

SHOWN = """\
User: Write a function f(x) that returns x minus 2.
Assistant: ```python
def f(x):
    return x - 2
```

User: """

# (what the function returns, in words; the function)
Make = Callable[[random.Random], tuple[str, Callable[[int], int]]]


def plus(rng: random.Random) -> tuple[str, Callable[[int], int]]:
    k = rng.randint(2, 99)
    return f"x plus {k}", lambda x: x + k


def times(rng: random.Random) -> tuple[str, Callable[[int], int]]:
    k = rng.randint(2, 99)
    return f"x times {k}", lambda x: x * k


def remainder(rng: random.Random) -> tuple[str, Callable[[int], int]]:
    k = rng.randint(3, 99)
    return f"the remainder of x divided by {k}", lambda x: x % k


def square_plus(rng: random.Random) -> tuple[str, Callable[[int], int]]:
    k = rng.randint(2, 99)
    return f"the square of x plus {k}", lambda x: x * x + k


KINDS: tuple[Make, ...] = (plus, times, remainder, square_plus)


def make_rows() -> tuple[list[dict], list[dict]]:
    """Return (training rows, test rows): the kinds of task in turn, the same ones every time."""
    rng = random.Random(0)
    rows: dict[str, dict] = {}
    while len(rows) < NUM_TRAIN + NUM_TEST:
        words, function = KINDS[len(rows) % len(KINDS)](rng)
        inputs = rng.sample(range(3, 200), 6)
        pairs = [[[x], function(x)] for x in inputs]
        label = {"name": "f", "examples": pairs[:2], "hidden": pairs[2:]}
        prompt = f"{SHOWN}Write a function f(x) that returns {words}.\nAssistant: ```python\n"
        rows.setdefault(words, {"prompt": prompt, "label": json.dumps(label)})
    everything = list(rows.values())
    return everything[:NUM_TRAIN], everything[NUM_TRAIN:]


if __name__ == "__main__":
    sys.path.append(str(Path(__file__).resolve().parents[1]))  # the folder of all examples
    from data_files import chosen_folder, write_splits

    write_splits(chosen_folder(DEFAULT_FOLDER), *make_rows())

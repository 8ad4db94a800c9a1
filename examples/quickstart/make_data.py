"""Make the quickstart's data: a sentence about a person in, a JSON object with name and age out.

    python3 examples/quickstart/make_data.py [folder]

Writes train.jsonl and test.jsonl, rows of `prompt` (chat messages) and `label` (a JSON object as text). No pair of name
and age stands in both files, so no answer of the test set is ever rewarded in training. The same files every time.
"""

import itertools
import json
import random
import sys
from pathlib import Path

DEFAULT_FOLDER = Path("runs/data/quickstart")
NUM_TRAIN, NUM_TEST = 512, 64

TEMPLATES = (
    "{n} is {a}.",
    "{n} is {a} years old.",
    "{n} is a {a}-year-old from {c}.",
    "{a}-year-old {n} lives in {c}.",
    "{n} from {c} is {a}.",
    "{n} turned {a} in {c}.",
)
NAMES = (
    *("Anna", "Boris", "Carla", "David", "Elena", "Felix", "Greta", "Hugo", "Irene", "Jonas"),
    *("Karin", "Lucas", "Maria", "Nadia", "Oscar", "Paula", "Ravi", "Sofia", "Tomas"),
)
AGES = range(10, 100)
CITIES = (
    *("Athens", "Berlin", "Cairo", "Dublin", "Geneva", "Helsinki", "Istanbul", "Jakarta", "Kyoto", "Lima"),
    *("Madrid", "Nairobi", "Oslo", "Paris", "Quito", "Rome", "Sydney", "Tunis", "Vienna", "Warsaw"),
)
QUESTION = " Write as JSON with keys name and age."


def make_rows() -> tuple[list[dict], list[dict]]:
    """Return (training rows, test rows)."""
    rng = random.Random(0)
    people = list(itertools.product(NAMES, AGES))
    rng.shuffle(people)
    rows = []
    for name, age in people[: NUM_TRAIN + NUM_TEST]:
        sentence = rng.choice(TEMPLATES).format(n=name, a=age, c=rng.choice(CITIES))
        rows.append(
            {
                "prompt": [{"role": "user", "content": sentence + QUESTION}],
                "label": json.dumps({"name": name, "age": age}),
            }
        )
    return rows[:NUM_TRAIN], rows[NUM_TRAIN:]


if __name__ == "__main__":
    sys.path.append(str(Path(__file__).resolve().parents[1]))  # the folder of all examples
    from data_files import chosen_folder, write_splits

    write_splits(chosen_folder(DEFAULT_FOLDER), *make_rows())

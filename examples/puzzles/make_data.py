"""Make the data of the example with reasoning-gym: puzzles whose generator also checks the answers.

    python3 examples/puzzles/make_data.py [folder]

The label names the task that grades a row (`"task": "synlogic"`) and the generator (`data_source`), and keeps what its
check needs. Other generators: docs/tasks.md lists them; `reasoning_gym.create_dataset(NAME)` takes their settings.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import reasoning_gym

DEFAULT_FOLDER = Path("runs/data/puzzles")
NUM_TRAIN, NUM_TEST = 192, 32  # of each generator

GENERATORS: dict[str, dict[str, Any]] = {
    "chain_sum": {"min_terms": 2, "max_terms": 2, "min_digits": 1, "max_digits": 1},
    "spell_backward": {"min_word_len": 3, "max_word_len": 4},
}


def plain(value: Any) -> Any:
    """What JSON does not know: numpy's numbers, texts and arrays, and sets."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return sorted(value) if isinstance(value, set | frozenset) else str(value)


def make_rows(size: int, seed: int) -> list[dict]:
    """`size` puzzles of each generator in turn."""
    sets = {name: reasoning_gym.create_dataset(name, size=size, seed=seed, **own) for name, own in GENERATORS.items()}
    rows = []
    for number in range(size):
        for name, puzzles in sets.items():
            puzzle = puzzles[number]
            label = {
                "uuid": f"{name}-{seed}-{number}",
                "task": "synlogic",
                "data_source": f"reasoning_gym/{name}",
                "gold_ans": puzzle["answer"],
                "metadata": puzzle["metadata"],
            }
            prompt = f"{puzzle['question']}\nAnswer with nothing but the result."
            rows.append({"prompt": prompt, "label": json.dumps(label, default=plain), "datasource": name})
    return rows


if __name__ == "__main__":
    sys.path.append(str(Path(__file__).resolve().parents[1]))  # the folder of all examples
    from data_files import chosen_folder, write_splits

    write_splits(chosen_folder(DEFAULT_FOLDER), make_rows(NUM_TRAIN, 1), make_rows(NUM_TEST, 2))

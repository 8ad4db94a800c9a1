"""Make the data of the vision example: pictures as files, and rows in the format of docs/vision.md.

    python3 examples/vision/make_data.py [folder]

Two tasks are mixed: naming the colour of a square, and counting discs; both have one word as their answer.
"""

import random
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from pictures import COLOURS, MOST_SHAPES, shapes, square

DEFAULT_FOLDER = Path("runs/data/vision")
NUM_TRAIN, NUM_TEST = 256, 64
QUESTIONS = {"colour": "what colour is it", "count": "how many are there"}


def make_row(task: str, number: int, folder: Path, rng: random.Random) -> dict:
    """Draw the picture of that number, and return its row. Each answer comes up as often as any other."""
    if task == "colour":
        label = list(COLOURS)[number % len(COLOURS)]
        image = square(label, rng)
    else:
        count = number % MOST_SHAPES + 1
        label, image = str(count), shapes(count, rng)
    path = folder / "images" / f"{task}_{number:04d}.png"
    image.save(path)
    content = [{"type": "image"}, {"type": "text", "text": f" {QUESTIONS[task]}"}]
    return {
        "prompt": [{"role": "user", "content": content}],
        "images": [str(path.relative_to(folder))],
        "label": label,
        "datasource": task,
    }


def make_rows(folder: Path, tasks: tuple[str, ...] = tuple(QUESTIONS), seed: int = 0) -> tuple[list[dict], list[dict]]:
    """Return (training rows, test rows), the tasks in turn; their pictures are in `folder`/images."""
    (folder / "images").mkdir(parents=True, exist_ok=True)
    rng = random.Random(seed)
    rows = [make_row(tasks[i % len(tasks)], i // len(tasks), folder, rng) for i in range(NUM_TRAIN + NUM_TEST)]
    return rows[:NUM_TRAIN], rows[NUM_TRAIN:]


if __name__ == "__main__":
    sys.path.append(str(Path(__file__).resolve().parents[1]))  # the folder of all examples
    from data_files import chosen_folder, write_splits

    folder = chosen_folder(DEFAULT_FOLDER)
    write_splits(folder, *make_rows(folder))

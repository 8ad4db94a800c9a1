"""Make the data of the harder example: a date in words in, the ISO date out.

    python3 examples/dates/make_data.py [folder]

The prompt is plain text with one solved line before the question. No date stands in both files.
"""

import datetime
import random
import sys
from pathlib import Path

DEFAULT_FOLDER = Path("runs/data/dates")
NUM_TRAIN, NUM_TEST = 512, 64
SHOWN = datetime.date(2003, 5, 12)
MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def in_words(date: datetime.date) -> str:
    return f"{date.day} {MONTHS[date.month - 1]} {date.year}"


def make_rows() -> tuple[list[dict], list[dict]]:
    """Return (training rows, test rows)."""
    first = datetime.date(1900, 1, 1).toordinal()
    last = datetime.date(2099, 12, 31).toordinal()
    days = random.Random(0).sample(
        [day for day in range(first, last + 1) if day != SHOWN.toordinal()], NUM_TRAIN + NUM_TEST
    )
    rows = []
    for date in (datetime.date.fromordinal(day) for day in days):
        prompt = f"{in_words(SHOWN)} = {SHOWN.isoformat()}\n{in_words(date)} ="
        rows.append({"prompt": prompt, "label": date.isoformat()})
    return rows[:NUM_TRAIN], rows[NUM_TRAIN:]


if __name__ == "__main__":
    sys.path.append(str(Path(__file__).resolve().parents[1]))  # the folder of all examples
    from data_files import chosen_folder, write_splits

    write_splits(chosen_folder(DEFAULT_FOLDER), *make_rows())

"""From a dataset flag to rows: `path`, `path@dir`, hub names, several of them separated by commas."""

from collections.abc import Callable, Sequence, Set
from itertools import islice

from openrlhf.config.disk import exists, expanded
from openrlhf.data.blend import expected_rows, interleave, parse_probabilities
from openrlhf.data.errors import DataError, listing
from openrlhf.data.hub import hub_name, hub_table
from openrlhf.data.layout import choose_split
from openrlhf.data.local import local_splits, looks_local
from openrlhf.data.rows import Row, Table
from openrlhf.data.split import SplitPart, parse_split

_BEARABLE_ROWS, _BEARABLE_REPEATS = 1_000_000, 10  # a blend may have the larger of: rows, so many times its sources


def load_rows(
    spec: str,
    *,
    required: Sequence[str],
    optional: Sequence[str] = (),
    split: str = "train",
    probs: str | None = None,
    max_samples: int | None = None,
    seed: int = 42,
    on_table: Callable[[Table], None] | None = None,
) -> list[Row]:
    """Rows of one or more datasets, in a fixed order.

    Without `probs` the datasets follow each other; with it they are interleaved by these probabilities until each was
    used up once. `max_samples` holds for each dataset and then for the whole. `required` columns must exist in every
    dataset (a single row may still lack one, see `Row`); `optional` ones are read where they exist. `on_table` is
    called with each file or split that was read.

    Raises DataError, in one line: nothing at that path, an unknown split or column, no rows, unreadable content.
    """
    if max_samples is not None and max_samples < 1:
        raise DataError(f"max_samples must be at least 1, got {max_samples}")
    entries = split_spec(spec)
    probabilities = parse_probabilities(probs, len(entries))
    parts = parse_split(split)
    wanted = frozenset(required) | frozenset(optional)
    datasets = [_entry_rows(entry, parts, wanted, required, on_table)[:max_samples] for entry in entries]
    if probabilities is None or len(datasets) == 1:
        return [row for rows in datasets for row in rows][:max_samples]
    lengths = [len(rows) for rows in datasets]
    _require_bearable(lengths, probabilities, max_samples, probs)
    order = interleave(lengths, probabilities, seed)
    return [datasets[source][row] for source, row in islice(order, max_samples)]


def _require_bearable(
    lengths: Sequence[int], probabilities: Sequence[float], max_samples: int | None, probs: str | None
) -> None:
    """DataError where a set of tiny probability would repeat the others millions of times until it is used up."""
    rows = expected_rows(lengths, probabilities)
    bearable = max(_BEARABLE_ROWS, _BEARABLE_REPEATS * sum(lengths))
    if min(rows, max_samples or rows) > bearable:
        raise DataError(
            f"probabilities {probs}: until every dataset is used up, {rows} rows are drawn from {sum(lengths)}; give a "
            "small dataset a larger share, or say how many rows to draw at most with --data.max_samples"
        )


def split_spec(spec: str) -> list[str]:
    """The datasets of a flag; a path that exists is taken as it is, even with a comma in it."""
    entries = [spec] if spec and exists(expanded(spec)) else [piece.strip() for piece in spec.split(",")]
    if not all(entries):
        raise DataError(f"dataset {spec!r}: " + ("an empty name between commas" if spec.strip() else "no name given"))
    return entries


def columns_of(spec: str, split: str) -> dict[str, tuple[str, ...]]:
    """The columns of each file or split of a dataset flag, by its name. Reads it all again. Raises DataError."""
    parts = parse_split(split)
    tables = [_read(entry, part.name, frozenset()) for entry in split_spec(spec) for part in parts]
    return {table.name: table.columns for table in tables}


def _entry_rows(
    entry: str,
    parts: list[SplitPart],
    wanted: Set[str],
    required: Sequence[str],
    on_table: Callable[[Table], None] | None,
) -> list[Row]:
    rows: list[Row] = []
    for part in parts:
        table = _read(entry, part.name, wanted)
        unknown = [key for key in required if key not in table.columns]
        if unknown and table.rows:
            raise DataError(f"{table.name}: no column {unknown[0]!r}; its columns are {listing(table.columns)}")
        if on_table is not None:
            on_table(table)
        rows += [table.rows[index] for index in part.indices(len(table.rows))]
    if not rows:
        raise DataError(f"{entry}: no rows in split {'+'.join(map(str, parts))!r}")
    return rows


def _read(entry: str, split: str, wanted: Set[str]) -> Table:
    """One split of `path`, `path@dir` or a hub name; what exists on disk is never looked up elsewhere."""
    name, _, folder = (entry, "", "") if exists(expanded(entry)) else entry.rpartition("@")
    name, folder = (name, folder) if name else (entry, "")
    path = expanded(name)
    if exists(path) or looks_local(name):
        splits = local_splits(path / folder if folder else path)
        return splits[choose_split(splits, split, entry)](wanted)
    on_hub = hub_name(name)
    if on_hub is None:
        raise DataError(f"{entry}: no such file or folder, and no hub name either (owner/name)")
    return hub_table(on_hub, folder or None, split, wanted)

"""What can go wrong in this room."""

from collections.abc import Sequence


class DataError(ValueError):
    """Data that cannot be used. One line: the file with line or row, the key, and what exists instead."""


class LedgerError(RuntimeError):
    """A prompt was moved in a way that would lose or repeat it. A fault of the caller, never of the data."""


def listing(names: Sequence[str], limit: int = 12) -> str:
    """Names for an error message, cut to `limit`: `a, b, c and 4 more`; `nothing` if there are none."""
    shown = ", ".join(names[:limit])
    hidden = len(names) - limit
    return (f"{shown} and {hidden} more" if hidden > 0 else shown) or "nothing"

"""Which engine gets the next prompt."""

from collections.abc import Sequence


def least_loaded(loads: Sequence[float]) -> int:
    """Return the index of the smallest load, the first of equals. ValueError if there is no engine.

    A load is what an engine still has to do, e.g. its samples in flight.
    """
    if not loads:
        raise ValueError("no engine to choose from")
    return min(range(len(loads)), key=loads.__getitem__)

"""Which engine gets the next prompt."""

from collections.abc import Sequence


def least_loaded(loads: Sequence[float]) -> int:
    """Return the index of the smallest load, the first of equals. ValueError if there is no engine.

    A load is what an engine still has to do, e.g. its samples in flight. Loads that only ever grow (samples given,
    never taken off) make the choice independent of timing, which full determinism needs.
    """
    if not loads:
        raise ValueError("no engine to choose from")
    return min(range(len(loads)), key=loads.__getitem__)


def assign(sizes: Sequence[int], engines: int) -> list[int]:
    """The engine of each prompt: in turn, each goes to the one with the fewest samples given so far.

    Args:
        sizes: samples of each prompt; they stay together.

    Example: sizes 4, 1, 1, 1 on two engines -> 0, 1, 1, 1.
    """
    given = [0] * engines
    chosen = []
    for size in sizes:
        index = least_loaded(given)
        given[index] += size
        chosen.append(index)
    return chosen

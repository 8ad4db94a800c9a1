"""Suggestions for a name that does not exist."""

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, known: Iterable[str], count: int = 3) -> list[str]:
    """Up to `count` known names: first those that end in `name`, then those spelled alike, as a whole or in their
    last part."""
    names = list(known)
    same_end = [other for other in names if other.endswith(f".{name}")]
    alike = get_close_matches(name, names, n=count, cutoff=0.7)
    leaf = name.rpartition(".")[2]
    leaves = {other.rpartition(".")[2] for other in names}
    close_leaves = get_close_matches(leaf, leaves, n=count, cutoff=0.8)
    by_leaf = [other for close in close_leaves for other in names if other.rpartition(".")[2] == close]
    return list(dict.fromkeys([*same_end, *alike, *by_leaf]))[:count]

"""The command line, cut into flags and their values, before anything knows what the flags mean."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

_TRUE = {"true", "1", "yes", "on"}
_FALSE = {"false", "0", "no", "off"}


@dataclass(frozen=True, slots=True)
class Given:
    """One occurrence of a flag. `name` has no dashes before it and underscores inside.

    `copy`: it stands for a second model what an old flag, which both models shared, says for the first.
    """

    name: str
    values: tuple[str, ...]
    typed: str  # as the user wrote it, for messages
    copy: bool = False

    def renamed(self, name: str, values: tuple[str, ...] | None = None) -> "Given":
        return replace(self, name=name, values=self.values if values is None else values)

    def copied(self, name: str) -> "Given":
        return replace(self, name=name, copy=True)

    def truth(self) -> bool | None:
        """What a boolean flag with these values says: bare is true; None where they are not a truth value."""
        if not self.values:
            return True
        word = self.values[0].lower()
        if len(self.values) > 1 or word not in _TRUE | _FALSE:
            return None
        return word in _TRUE


def split(argv: Sequence[str]) -> tuple[list[Given], list[str]]:
    """Cut argv into flags; also return the words that stand before the first flag and belong to none.

    A word that starts with `--` opens a flag, `--x=v` gives its first value; every other word, negative numbers
    among them, is a value of the flag before it.
    """
    found: list[Given] = []
    stray: list[str] = []
    for word in argv:
        if word.startswith("--") and len(word) > 2:
            name, equals, value = word[2:].partition("=")
            found.append(Given(name.replace("-", "_"), (value,) if equals else (), f"--{name}"))
        elif found:
            found[-1] = replace(found[-1], values=(*found[-1].values, word))
        else:
            stray.append(word)
    return found, stray

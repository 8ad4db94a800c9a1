"""Whether the words after a flag are values it can take: one plain line per fault, before tyro reads them."""

import re
from collections.abc import Sequence

from openrlhf.config.schema import Flag

# int() and float() also read digits of other scripts, underscores and, up to a limit, numbers of any length.
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
_LONGEST_SHOWN = 80


def brief(word: str) -> str:
    """A word for a message, cut where it is long."""
    return word if len(word) <= _LONGEST_SHOWN else f"{word[:_LONGEST_SHOWN]}... ({len(word)} characters)"


def whole_number(word: str) -> bool:
    """Whether a word is an ASCII whole number of at most 18 digits; more fits no 64-bit counter."""
    return _WHOLE.fullmatch(word.strip()) is not None


def _number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return word.isascii() and "_" not in word


def word_fault(flag: Flag, word: str) -> str | None:
    """What is wrong with one word as a value of a flag that is not boolean; None: nothing."""
    if word == "None":
        return "None is no value of it"
    if flag.kind == "str" and not word and flag.default != "":
        return "the value is empty (an unset shell variable?)"
    if flag.choices:
        names = [str(choice) for choice in flag.choices]
        return None if word in names else f"choose one of {', '.join(names)}"
    if flag.kind == "int" and not whole_number(word):
        return f"{brief(word)!r} is no whole number" + (" of at most 18 digits" if word.strip("+-").isdecimal() else "")
    if flag.kind == "float" and not _number(word):
        return f"{brief(word)!r} is no number"
    return None


def check_words(flag: Flag, words: Sequence[str]) -> str | None:
    """What is wrong with these words as the value of a flag that is not boolean; None: nothing."""
    if flag.optional and list(words) == ["None"]:
        return None
    if flag.arity is None and not words:
        return "one or more values must follow"
    if flag.arity is not None and len(words) != flag.arity:
        expected = "one value" if flag.arity == 1 else f"{flag.arity} values"
        return f"{expected} must follow, not {len(words)}"
    return next((fault for word in words if (fault := word_fault(flag, word))), None)

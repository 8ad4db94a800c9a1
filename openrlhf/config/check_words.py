"""Whether the words after a flag are values it can take: one plain line per fault, before tyro reads them."""

from collections.abc import Sequence

from openrlhf.config.schema import Flag


def _fault(flag: Flag, word: str) -> str | None:
    if word == "None":
        return "None is no value of it"
    if flag.kind == "str" and not word and flag.default != "":
        return "the value is empty (an unset shell variable?)"
    if flag.choices:
        names = [str(choice) for choice in flag.choices]
        return None if word in names else f"choose one of {', '.join(names)}"
    reader = {"int": int, "float": float}.get(flag.kind, str)
    try:
        reader(word)
    except ValueError:
        return f"{word!r} is no {'whole number' if flag.kind == 'int' else 'number'}"
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
    return next((fault for word in words if (fault := _fault(flag, word))), None)

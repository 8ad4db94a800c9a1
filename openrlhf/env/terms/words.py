"""Phrases of a response that look back at its own reasoning, or take up another idea."""

import re

_REFLECTION = (
    "wait",
    "let me check",
    "let me verify",
    "let's check",
    "let's verify",
    "double-check",
    "double check",
    "re-check",
    "recheck",
    "re-examine",
    "reexamine",
    "re-evaluate",
    "reconsider",
    "look again",
    "on second thought",
    "i made a mistake",
    "that is wrong",
    "that's wrong",
    "is that right",
)
_NEW_IDEA = (
    "alternatively",
    "another approach",
    "another way",
    "another method",
    "a different approach",
    "a different way",
    "a different method",
    "instead, let",
    "let me try",
    "let's try",
    "try a new",
    "new idea",
    "think differently",
)


def _pattern(phrases: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(r"\b(?:" + "|".join(map(re.escape, phrases)) + r")\b", re.IGNORECASE)


_REFLECTS, _TURNS = _pattern(_REFLECTION), _pattern(_NEW_IDEA)


def reflects(text: str) -> bool:
    """Whether the text doubts or checks what it said before."""
    return _REFLECTS.search(text) is not None


def has_new_idea(text: str) -> bool:
    """Whether the text takes up another approach."""
    return _TURNS.search(text) is not None

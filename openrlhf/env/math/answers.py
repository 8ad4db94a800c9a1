"""Comparing answers as strings: cheap, exact, and enough for most right ones."""

import re

from openrlhf.env.math.boxed import last_boxed

_SPACING = re.compile(r"\\[,;:! ]|\\q?quad(?![a-zA-Z])|~")
_TEXT = re.compile(r"\\(?:text(?:normal|bf|it|rm)?|math(?:rm|it|bf)|mbox)\s?\{([^{}]*)\}")
_RESIZED = re.compile(r"\\(?:left|right)(?![a-zA-Z])")
_FULL_STOP = re.compile(r"(?<!\.)\.\Z")  # the three dots of 0.333... stay
_LONE_BACKSLASH = re.compile(r"(?<!\\) ?\\\Z")  # of `\ `, whose space has been taken for the text's end
_LOOSE_SPACE = re.compile(r"(?<![^\W_]) | (?![^\W_])")  # not between two letters or digits: "1 2" is not 12


def simplify(answer: str) -> str:
    """The answer without what typesets it: `$` signs, spacing, \\left and \\right, \\text, \\dfrac, a final full stop.

    Example:
        `simplify(r"$ \\dfrac{1}{2} $.")` is `\\frac{1}{2}`
    """
    text = _FULL_STOP.sub("", answer.strip()).replace(r"\$", "").replace("$", "")
    text = _SPACING.sub(" ", text)
    text = _RESIZED.sub("", _TEXT.sub(r"\1", text))
    text = text.replace(r"\dfrac", r"\frac").replace(r"\tfrac", r"\frac")
    text = _LOOSE_SPACE.sub("", " ".join(text.split()))
    return _LONE_BACKSLASH.sub("", text)


def gold_answer(label: str) -> str:
    """The answer inside a label: its last box; else what follows its last `####` (GSM8K); else all of it."""
    boxed = last_boxed(label)
    return boxed if boxed is not None else label.rpartition("####")[2].strip()

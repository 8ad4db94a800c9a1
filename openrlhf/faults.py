"""An exception as one line of text.

For exceptions of other people's code too, where nothing is sure: their `str()` may raise, and they may be none of
Python's own kinds.
"""

import threading
import traceback
from pathlib import Path

_MAX_MESSAGE = 300  # characters of a message


def text_of(error: BaseException) -> str:
    """The exception's own words, or that they cannot be had."""
    try:
        return str(error)
    except BaseException as fault:  # `__str__` is code of whoever raised
        if is_ctrl_c(fault):
            raise
        return f"(its message cannot be shown: str() raised {type(fault).__name__})"


def first_line(error: BaseException) -> str:
    """The first line of an error's text that says something, else the exception's name."""
    lines = [line.strip() for line in text_of(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def named(error: BaseException) -> str:
    """Type and message on one line: `KeyError: 'x'`."""
    message = " ".join(text_of(error).split())[:_MAX_MESSAGE]
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def describe(error: BaseException, path: Path | None = None) -> str:
    """Type, message, the line that raised, and the line of the file `path` that led to it, if it is another."""
    text = named(error)
    if isinstance(error, SyntaxError):
        return f"{text} at {error.filename}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if Path(frame.filename) == path]
    places = [f"{frame.filename}:{frame.lineno}" for frame in (own[-1:] + frames[-1:])]
    return " ".join([text, *(["at", " <- ".join(dict.fromkeys(reversed(places)))] if places else [])])


def is_ctrl_c(error: BaseException) -> bool:
    """Whether it may be a signal that ends the command, which nobody may swallow: those reach the main thread only.

    In any other thread a KeyboardInterrupt was raised by somebody's code.
    """
    return isinstance(error, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()

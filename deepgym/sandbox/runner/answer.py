"""The answer's own interpreter: imports its module and calls its functions. Nothing here is trusted.

What it reports are its own return values, so all it could forge is what it was free to return.

    reply = !BII state, length of the error text, length of the value | error text | value as JSON
"""

import collections
import importlib.util
import json
import os
import struct
import sys
import traceback
from types import ModuleType
from typing import Any

from .setup import Setup
from .wire import read_exactly, write_all

REQUEST = struct.Struct("!I")
REPLY = struct.Struct("!BII")
RETURNED, RAISED, LEFT, OUT_OF_MEMORY = range(4)
MAX_ERROR = 2048  # bytes

_EXACT = (bool, int, float, str, type(None))


def serve(setup: Setup, requests: int, replies: int) -> None:
    """Answer requests until the supervisor closes their pipe."""
    _make_standard_streams()
    sys.path.insert(0, setup.work)
    sys.argv = [setup.module or ""]
    os.chdir(setup.work)
    module: ModuleType | None = None
    while True:
        try:
            (size,) = REQUEST.unpack(read_exactly(requests, REQUEST.size))
            call = json.loads(read_exactly(requests, size))
        except EOFError:
            return
        error, value = "", b""
        try:
            if module is None:
                module = _load(setup)
            state, value = RETURNED, _encode(_find(module, call["function"])(*call["args"], **call["kwargs"]))
        except SystemExit as leave:
            state, error = LEFT, f"SystemExit: {leave.code!r}"
        except MemoryError:
            state, error = OUT_OF_MEMORY, "MemoryError"
        except BaseException as failure:
            state, error = RAISED, _describe(failure, setup)
        _flush()
        text = error.encode(errors="backslashreplace")[:MAX_ERROR]
        write_all(replies, REPLY.pack(state, len(text), len(value)) + text + value)


def _make_standard_streams() -> None:
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape")  # noqa: SIM115
    sys.stdout = open(1, "w", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1)  # noqa: SIM115


def _load(setup: Setup) -> ModuleType:
    assert setup.module is not None
    path = os.path.join(setup.work, setup.module)
    name = os.path.basename(setup.module).removesuffix(".py")
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{setup.module} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _find(module: ModuleType, name: str) -> Any:
    try:
        return module.__dict__[name]
    except KeyError:
        raise NameError(f"the answer defines no {name!r}") from None


def _encode(value: Any) -> bytes:
    return json.dumps(_plain(value)).encode()


def _plain(value: Any) -> Any:
    """The value as JSON data. Subclasses (named tuples, enumerations of numbers, counters) count as what they extend.

    Always by the base type's own methods: what a subclass says of itself decides nothing.
    """
    kind = type(value)
    if kind in _EXACT:
        return value
    if kind is list or kind is tuple:  # nearly always
        return [_plain(item) for item in value]
    if issubclass(kind, dict):
        ordered = issubclass(kind, collections.OrderedDict)  # whose order is not the one of its dict
        return {
            key if type(key) in _EXACT else _scalar(key, "a dict with a key"): _plain(item)
            for key, item in (collections.OrderedDict if ordered else dict).items(value)
        }
    for sequence in (list, tuple, collections.deque):
        if issubclass(kind, sequence):
            return [_plain(item) for item in sequence.__iter__(value)]
    return _scalar(value, "a value")


def _scalar(value: Any, what: str) -> int | float | str:
    """A subclass's number or text."""
    kind = type(value)
    if issubclass(kind, int):
        return int.__index__(value)
    if issubclass(kind, float):
        return float.__float__(value)
    if issubclass(kind, str):
        return str.__str__(value)
    raise TypeError(f"returned {what} of type {kind.__name__}, which is not JSON data")


def _describe(failure: BaseException, setup: Setup) -> str:
    """Type, message and line in the answer's file; never raises, whatever the exception's __str__ does."""
    try:
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(failure.__traceback__, limit=-50)
            if frame.filename.startswith(setup.work)
        ]
        where = f" (line {lines[-1]})" if lines else ""
        return f"{type(failure).__name__}: {str(failure)[:500]}{where}"
    except BaseException:  # the exception is the answer's object
        return "exception that cannot be shown"


def _flush() -> None:
    for name in ("stdout", "stderr"):
        try:
            getattr(sys, name).flush()
        except BaseException:
            # The answer deleted, closed or replaced it, by an object whose flush may even exit. What it printed is its
            # own loss; what it returned is already encoded, and gets the verdict that it deserves.
            continue

"""How what an answer returns becomes JSON."""

import enum
import json
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple

import pytest

from deepgym.sandbox.runner.answer import _encode

Pair = namedtuple("Pair", "first second")


class Level(enum.IntEnum):
    HIGH = 3


class Name(enum.StrEnum):
    FIRST = "one"


class Metres(float):
    pass


class Stack(list):
    pass


def reordered() -> OrderedDict:
    """Its dict keeps the order of insertion: a, b."""
    value = OrderedDict(a=1, b=2)
    value.move_to_end("a")
    return value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Pair(1, "a"), '[1, "a"]'),
        ([Pair(Pair(1, 2), None)], "[[[1, 2], null]]"),
        (deque([1, 2], maxlen=2), "[1, 2]"),
        (Stack([True, Level.HIGH]), "[true, 3]"),
        (Name.FIRST, '"one"'),
        (Metres(1.5), "1.5"),
        (Counter("aab"), '{"a": 2, "b": 1}'),
        (defaultdict(list, {Level.HIGH: [Name.FIRST]}), '{"3": ["one"]}'),
        (OrderedDict({Name.FIRST: 1}), '{"one": 1}'),
        (reordered(), '{"b": 2, "a": 1}'),
    ],
)
def test_subclasses_of_json_types_count_as_what_they_extend(value, text):
    assert _encode(value).decode() == text


@pytest.mark.parametrize(
    "value", [{1}, frozenset(), b"a", 1j, object(), range(3), enum.Enum("E", "A").A, {Pair(1, 2): 1}]
)
def test_all_else_is_no_json_data(value):
    with pytest.raises(TypeError, match="not JSON data"):
        _encode(value)


def test_what_a_subclass_says_of_itself_changes_nothing():
    class Liar(int):
        def __index__(self):
            return 7

        __int__ = __index__

        def __repr__(self):
            return "7"

        def __eq__(self, other):
            return True

        __hash__ = int.__hash__

    class Empty(list):
        def __iter__(self):
            return iter([1, 2, 3])

    class Word(str):
        def __str__(self):
            return "right"

    assert json.loads(_encode([Liar(1), Empty(), Word("wrong"), {Word("k"): Liar(2)}])) == [1, [], "wrong", {"k": 2}]

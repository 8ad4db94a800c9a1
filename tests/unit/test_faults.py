"""Exceptions as one line, also those that resist it."""

import threading
from pathlib import Path

import pytest

from openrlhf.faults import describe, first_line, is_ctrl_c, named, text_of


class Mute(ValueError):
    """Its text cannot be had."""

    def __str__(self) -> str:
        raise SystemExit(3)


def test_first_line_is_never_empty():
    assert first_line(ValueError("\n  one\ntwo")) == "one"
    assert first_line(TimeoutError()) == "TimeoutError"


def test_a_text_that_cannot_be_had_is_no_second_failure():
    assert text_of(Mute()) == "(its message cannot be shown: str() raised SystemExit)"
    assert named(Mute()) == "Mute: (its message cannot be shown: str() raised SystemExit)"
    assert first_line(Mute()) == "(its message cannot be shown: str() raised SystemExit)"


def test_one_line_of_at_most_so_many_characters():
    assert named(ValueError("a\n b")) == "ValueError: a b"
    assert named(ValueError()) == "ValueError"
    assert len(named(ValueError("x" * 5000))) == len("ValueError: ") + 300


def test_the_line_that_raised_and_the_one_that_led_to_it():
    here = Path(__file__)
    with pytest.raises(OSError) as caught:
        Path("/no/such/folder/at/all").read_text()
    assert f" <- {here}:" in describe(caught.value, here)
    assert str(here) not in describe(caught.value)
    assert describe(KeyError("x")) == "KeyError: 'x'"


def test_ctrl_c_reaches_the_main_thread_only():
    seen: list[bool] = []
    thread = threading.Thread(target=lambda: seen.append(is_ctrl_c(KeyboardInterrupt())))
    thread.start()
    thread.join()
    assert seen == [False]
    assert is_ctrl_c(KeyboardInterrupt())
    assert not is_ctrl_c(SystemExit())

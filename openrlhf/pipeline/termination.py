"""Work that SIGTERM, the notice of a scheduler, must not cut in half."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def termination_waits() -> Iterator[None]:
    """SIGTERM takes effect after this block.

    Ctrl-C does at once, and where it makes the command ignore further signals it stays that way. Outside the main
    thread, which gets no signals, this does nothing.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []

    def note(number: int, frame: object) -> None:
        received.append(number)

    before = signal.signal(signal.SIGTERM, note)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGTERM) is note:
            signal.signal(signal.SIGTERM, before)
        if received:
            signal.raise_signal(signal.SIGTERM)

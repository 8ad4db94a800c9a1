"""Knows how the answer's processes ended, and ends those that are left."""

import os
import signal
import time

from .watch import descendants

_KILL_PATIENCE = 20.0  # seconds


class Reaper:
    """Waits for children, adopted ones too.

    Args:
        is_init: this process is number 1 of a PID namespace that holds nothing but the answer.
    """

    def __init__(self, is_init: bool) -> None:
        self._is_init = is_init
        self._statuses: dict[int, int] = {}

    def reap(self) -> None:
        """Collect every child that has ended."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            self._statuses[pid] = status

    def exit_code(self, pid: int) -> int | None:
        """Exit code, or minus the signal's number; None while it runs."""
        self.reap()
        status = self._statuses.get(pid)
        return None if status is None else os.waitstatus_to_exitcode(status)

    def kill_all(self) -> None:
        """End every process of the answer and wait for it; nothing is left when this returns.

        Raises:
            TimeoutError: one does not die in time: the host gives it no core to die on.
        """
        deadline = time.monotonic() + _KILL_PATIENCE
        while True:
            self._signal_all()
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid:
                self._statuses[pid] = status
            elif time.monotonic() > deadline:
                raise TimeoutError(f"a killed process is still there after {_KILL_PATIENCE} s")
            else:
                time.sleep(0.0005)

    def _signal_all(self) -> None:
        if self._is_init:
            try:
                os.kill(-1, signal.SIGKILL)
            except ProcessLookupError:
                return
        else:
            for pid in descendants(os.getpid()):
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue

"""Worker processes that compare mathematical answers, used from any thread."""

from pathlib import Path

from openrlhf.env import fork_server
from openrlhf.env.math import judge
from openrlhf.env.workers import Limits, WorkerPool

MAX_KNOWN = 10_000


class ComparePool(WorkerPool):
    """Compares pairs of answers in up to `size` processes, and remembers what it found."""

    def __init__(self, size: int | None = None, limits: Limits | None = None) -> None:
        super().__init__(Path(judge.__file__), "math grading", size, limits)
        self._known: dict[tuple[str, str], str] = {}  # the samples of one prompt often share an answer

    def compare(self, answer: str, gold: str) -> str:
        """`judge.RIGHT` or `WRONG`, `fork_server.OVERRUN` or `LATE`; remembered unless LATE. Errors as for `ask`."""
        known = self._known.get((answer, gold))
        if known is not None:
            return known
        reply = self.ask({"answer": answer, "gold": gold})
        if reply == fork_server.BROKE:  # math-verify met something it does not understand
            reply = judge.WRONG
        if reply != fork_server.LATE:
            if len(self._known) >= MAX_KNOWN:
                self._known.clear()
            self._known[answer, gold] = reply
        return reply

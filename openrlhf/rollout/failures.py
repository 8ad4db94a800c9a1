"""What went wrong in the code of agents: all of it is counted, and the log tells each kind once."""

import logging
import traceback
from collections import Counter

from openrlhf.faults import describe
from openrlhf.rollout.errors import AgentReturnError, AgentTimeout

logger = logging.getLogger(__name__)


class FailureLog:
    """Counts by kind: where it happened, the exception's type, and the line that raised it."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()

    def record(self, where: str, error: BaseException, effect: str = "a sample is ungraded") -> str:
        """Count one failure and return it as one line; the first of its kind goes to the log with its traceback."""
        frames = traceback.extract_tb(error.__traceback__)
        place = f"{frames[-1].filename}:{frames[-1].lineno}" if frames else "unknown"
        own = isinstance(error, AgentTimeout | AgentReturnError)  # says where and what by itself
        reason = str(error) if own else f"{where} raised {describe(error)}"
        kind = f"{where}: {type(error).__name__} at {place}"
        self._counts[kind] += 1
        if self._counts[kind] == 1:
            trace = None if own else error
            logger.warning("%s: %s (further ones of this kind are only counted)", effect, reason, exc_info=trace)
        return reason

    def counts(self) -> dict[str, int]:
        """Failures so far, by kind."""
        return dict(self._counts)

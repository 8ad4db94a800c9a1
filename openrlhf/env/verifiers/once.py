"""Failures of verifiers: the log tells each kind once, the rest is only counted."""

import logging
from collections import Counter

logger = logging.getLogger(__name__)


class FailureCount:
    """Counts by kind."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()

    def add(self, kind: str, reason: str) -> None:
        self.counts[kind] += 1
        if self.counts[kind] == 1:
            logger.warning("no verdict from %s: %s (further ones of this kind are only counted)", kind, reason)

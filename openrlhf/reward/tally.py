"""Counts of the samples a reward source left without a verdict, with one warning line per kind."""

import logging
from collections import Counter

logger = logging.getLogger(__name__)


class Tally:
    """Counts by kind (`nan`, `infinite`, `timeout`, `http`); the log hears of each kind once, the counts go on."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._warned: set[str] = set()

    def ungraded(self, kind: str, reason: str) -> None:
        self._counts[kind] += 1
        self.warn_once(kind, f"a sample is ungraded: {reason} (further ones of this kind are only counted)")

    def warn_once(self, key: str, message: str) -> None:
        if key not in self._warned:
            self._warned.add(key)
            logger.warning(message)

    def counts(self) -> dict[str, int]:
        """Ungraded samples so far, by kind."""
        return dict(self._counts)

"""How many samples got no verdict: a warning when a block of samples holds too many of them."""

import logging
import threading

logger = logging.getLogger(__name__)

BLOCK = 100
MOST_MASKED = 5


class MaskedRate:
    """Counts samples in blocks of 100; a block with more than 5 masked ones is worth a warning."""

    def __init__(self, environment: str) -> None:
        self._environment = environment
        self._lock = threading.Lock()
        self._in_block = self._masked_in_block = 0
        self.samples = self.masked = 0

    def count(self, masked: bool) -> None:
        with self._lock:
            self.samples += 1
            self.masked += masked
            self._in_block += 1
            self._masked_in_block += masked
            if self._in_block < BLOCK:
                return
            in_block, self._in_block, self._masked_in_block = self._masked_in_block, 0, 0
            samples, total = self.samples, self.masked
        if in_block > MOST_MASKED:
            logger.warning(
                "%s: %d of the last %d samples got no verdict (%d of %d since start); see the warnings above for why",
                self._environment,
                in_block,
                BLOCK,
                total,
                samples,
            )

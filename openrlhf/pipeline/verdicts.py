"""Watching for a reward source that has stopped giving verdicts."""

from openrlhf.rl.filtering import UngradedAbort
from openrlhf.types import RolloutGroup, Status


class VerdictWatch:
    """Counts the samples without a verdict that come in a row; `limit` of them end the run. None: never."""

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._in_a_row = 0

    def see(self, group: RolloutGroup) -> None:
        """A group has its verdicts, as far as there are any.

        Raises:
            UngradedAbort: too many in a row have no verdict.
        """
        for rollout in group.rollouts:
            ungraded = rollout.outcome.status is Status.UNGRADED
            self._in_a_row = self._in_a_row + 1 if ungraded else 0
            if self._limit is not None and self._in_a_row >= self._limit:
                raise UngradedAbort(
                    f"{self._in_a_row} samples in a row got no verdict (--reward.abort_after {self._limit}), the last "
                    f"is {rollout.sample_id}: {rollout.outcome.reason}"
                )

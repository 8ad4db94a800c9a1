"""Watching for scores of another range than the one that dynamic filtering was left with."""

import logging
from collections.abc import Iterable

from openrlhf.rl.filtering import BOUND_WIDTH
from openrlhf.types import RolloutGroup

logger = logging.getLogger(__name__)
_DEFAULT = (0.0, 1.0)


class ScoreRangeWatch:
    """Says once where a score is outside [0, 1] and groups are kept by a mean inside (0, 1).

    Scores of -1 and 1, for instance, have a mean below 0 wherever most answers are wrong, though they differ.
    """

    def __init__(self) -> None:
        self._told = False

    def see(self, groups: Iterable[RolloutGroup], score_range: tuple[float, float]) -> None:
        """Scores that meet the range; a sample without a verdict has none (NaN)."""
        if self._told or score_range != _DEFAULT:
            return
        for rollout in (rollout for group in groups for rollout in group.rollouts):
            score = rollout.outcome.score
            if score < -BOUND_WIDTH or score > 1 + BOUND_WIDTH:
                self._told = True
                logger.warning(
                    "sample %s has score %g, but --algo.dynamic_filtering_range is 0 1: groups whose mean score is not "
                    "inside it are dropped, also where their scores differ; give the range of your scores, such as "
                    "--algo.dynamic_filtering_range -1 1 (told once)",
                    rollout.sample_id,
                    score,
                )
                return

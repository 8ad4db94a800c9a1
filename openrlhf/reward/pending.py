"""Samples whose reward comes from a trained model: the engines leave them open, a later stage fills them in."""

from openrlhf.types import Prompt, RewardOutcome, Rollout

PENDING = "waiting for the reward model"


class PendingReward:
    """A RewardSource that has no verdict yet."""

    async def score(self, query: str, prompt: Prompt, response: str) -> RewardOutcome:
        return RewardOutcome.ungraded(PENDING)

    async def close(self) -> None:
        """Nothing to close."""


def is_pending(rollout: Rollout) -> bool:
    """Whether the sample still waits for its reward; one that was aborted does not."""
    return rollout.outcome.reason == PENDING

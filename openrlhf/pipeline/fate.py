"""What becomes of a prompt when its samples are done with; the ledger books it.

trained    a token of its samples was in the loss of an optimiser step
filtered   a filter refused its samples
failed     they have no verdict, or no token to train on
"""

from collections.abc import Mapping, Sequence

from openrlhf.data.ledger import PromptState
from openrlhf.types import Experience, RolloutGroup, Status


def refused(group: RolloutGroup) -> PromptState:
    """Of a group that is not trained on: failed where a sample has no verdict, or none has a token; else filtered."""
    no_verdict = any(rollout.outcome.status is Status.UNGRADED for rollout in group.rollouts)
    no_token = not any(rollout.num_actions for rollout in group.rollouts)
    return PromptState.FAILED if no_verdict or no_token else PromptState.FILTERED


def fates(
    groups: Sequence[RolloutGroup], kept: Sequence[RolloutGroup], experience: Experience | None
) -> Mapping[str, PromptState]:
    """By group id, after the update.

    Args:
        groups: all of the step, with their verdicts.
        kept: those of them that the experience was made of; its rows are in the order of their segments.
        experience: as it was trained on, so that its loss_mask says what took part; None: nothing was.
    """
    found = {group.group_id: refused(group) for group in groups}
    if experience is None:
        return found
    left_out = PromptState.FAILED if experience.bad_examples is None else PromptState.FILTERED
    row = 0
    for group in kept:
        end = row + sum(len(rollout.segments) for rollout in group.rollouts)
        found[group.group_id] = PromptState.TRAINED if experience.loss_mask[row:end].any() else left_out
        row = end
    return found

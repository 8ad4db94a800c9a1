"""Whether what an executor handed back fits what the trainer makes of it.

Executors are somebody's code. Here a mismatch costs one sample; in the trainer it would end the run.
"""

from collections.abc import Mapping
from typing import Any

from openrlhf.interfaces import ImageTokens
from openrlhf.rollout.errors import AgentReturnError
from openrlhf.types import FLOAT32_MAX, EncodedImage, RewardOutcome, Segment, Trajectory


def check_trajectory(found: Any, name: str, max_length: int, vision: ImageTokens | None) -> Trajectory:
    """The trajectory that `name`.execute returned.

    AgentReturnError where it is none, has a segment of more than `max_length` tokens, of other images than its tokens
    show or with turns that its actions do not have, or where its outcome or a number of its logs is none.
    """
    where = f"{name}.execute returned"
    if not isinstance(found, Trajectory):
        raise AgentReturnError(f"{where} a {type(found).__name__}; expected a Trajectory")
    if not isinstance(found.outcome, RewardOutcome | None):
        raise AgentReturnError(f"{where} an outcome of type {type(found.outcome).__name__}; expected a RewardOutcome")
    for number, segment in enumerate(found.segments, start=1):
        if not isinstance(segment, Segment):
            raise AgentReturnError(f"{where} a segment {number} of type {type(segment).__name__}; expected a Segment")
        if (length := len(segment.token_ids)) > max_length:
            raise AgentReturnError(f"{where} a segment {number} of {length} tokens; max_length is {max_length}")
        _check_turns(segment, f"{where} a segment {number}")
        if vision is not None:
            _check_images(vision, segment, f"{where} a segment {number}")
    logs = found.outcome.extra_logs if found.outcome is not None else {}
    for what, numbers in (("facts", found.facts), ("extra_logs", logs)):
        if not isinstance(numbers, Mapping | None):
            raise AgentReturnError(f"{where} {what} of type {type(numbers).__name__}; expected a dict of numbers")
        for key, value in (numbers or {}).items():
            if not _is_number(value):
                kind = type(value).__name__
                raise AgentReturnError(f"{where} {what}[{key!r}] of type {kind}; expected a number that a float holds")
    return found


def _check_turns(segment: Segment, where: str) -> None:
    length = len(segment.token_ids)
    for turn in segment.turns:
        span = f"with a turn [{turn.start}, {turn.end})"
        if not 0 <= turn.start <= turn.end <= length:
            raise AgentReturnError(f"{where} {span}, which its {length} tokens do not have")
        if turn.reward is None:
            continue
        if not segment.action_mask[turn.start : turn.end].any():
            raise AgentReturnError(f"{where} {span} that has a reward but no action token")
        if not (_is_number(turn.reward) and abs(float(turn.reward)) <= FLOAT32_MAX):
            raise AgentReturnError(f"{where} {span} whose reward {str(turn.reward)[:40]} is not a finite number")


def _check_images(vision: ImageTokens, segment: Segment, where: str) -> None:
    for number, image in enumerate(segment.images, start=1):
        if not isinstance(image, EncodedImage):
            raise AgentReturnError(
                f"{where} with an image {number} of type {type(image).__name__}; expected an EncodedImage: those of "
                "`images` are, and read_image of openrlhf.utils.agent makes one of a PIL image, bytes or a path"
            )
    try:
        vision.fold(segment.token_ids.tolist(), segment.images)
    except ValueError as error:
        raise AgentReturnError(
            f"{where} whose tokens and images differ: {error}. Images are given as tokens.segment(images), and text "
            "that an environment shows must have no placeholder"
        ) from error


def _is_number(value: Any) -> bool:
    """Whether metrics can take it: anything that is a float to Python, so NumPy's and torch's scalars too."""
    try:
        float(value)
    except (TypeError, ValueError, OverflowError):
        return False
    return not isinstance(value, str | bytes)

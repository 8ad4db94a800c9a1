"""What `reset` and `step` of an agent may return.

    reset -> {"observation": str}

    step -> {"rewards": number,                 required; enters the advantage
             "done": bool,                      required; true ends the episode
             "scores": number,                  default: none given at this step
             "environment_feedback": str,       default ""; not used when done
             "sampling_params": ...,            how later turns are sampled; default: as before
             "environment_images": [...],       images that the feedback shows, one `<image>` in it for each: PIL
                                                images, paths, bytes, addresses; default none; not read when done
             "extra_logs": {name: number}}      default none

A number is a float, an int, a bool, or an array or tensor of shape () or (1,). None, NaN and what float32 holds
only as infinite mean that there is no verdict. Anything else, and a missing key, raises AgentReturnError. A key that is
not listed here, and an extra log that is no number, is left out with one warning.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from openrlhf.images import ImageError, read_images
from openrlhf.reward.normalise import as_float32, kind_of, number_of
from openrlhf.reward.tally import Tally
from openrlhf.rollout.agent_sampling import adopt
from openrlhf.rollout.errors import AgentReturnError
from openrlhf.types import EncodedImage, SamplingParams

STEP_KEYS = (
    "rewards",
    "done",
    "scores",
    "environment_feedback",
    "sampling_params",
    "environment_images",
    "extra_logs",
)


@dataclass(frozen=True, slots=True)
class StepResult:
    """One answer of the environment, checked."""

    reward: float  # NaN: no verdict
    done: bool
    score: float | None  # None: not given; NaN: no verdict
    feedback: str
    sampling: SamplingParams
    images: Any = None  # as the agent gave them; `read_shown` reads them
    extra_logs: Mapping[str, float] = field(default_factory=dict)


def read_reset(raw: Any, source: str, tally: Tally) -> str:
    """The observation that opens the episode. `source` names the agent in messages."""
    answer = _mapping(raw, f"{source}.reset", ("observation",), tally)
    return _text(_required(answer, "observation", f"{source}.reset"), "observation", f"{source}.reset")


def read_step(raw: Any, current: SamplingParams, source: str, tally: Tally) -> StepResult:
    """The answer of a step, where turns so far are sampled as `current` says."""
    where = f"{source}.step"
    answer = _mapping(raw, where, STEP_KEYS, tally)
    reward = _number(_required(answer, "rewards", where), "rewards", where)
    done = _flag(_required(answer, "done", where), where)
    score = answer.get("scores")
    return StepResult(
        reward=reward,
        done=done,
        score=None if score is None else _number(score, "scores", where),
        feedback=_text(answer.get("environment_feedback") or "", "environment_feedback", where),
        sampling=adopt(current, answer.get("sampling_params"), where),
        images=None if done else answer.get("environment_images"),
        extra_logs=read_logs(answer.get("extra_logs"), where, tally),
    )


def read_shown(result: StepResult, source: str) -> tuple[EncodedImage, ...]:
    """The images that the feedback shows. It may wait for a disk or a server, and decodes: not for an event loop.

    AgentReturnError for one that cannot be used.
    """
    try:
        return read_images(result.images)
    except ImageError as error:
        raise AgentReturnError(f"{source}.step returned environment_images with {error}") from error


def _mapping(raw: Any, where: str, known: tuple[str, ...], tally: Tally) -> Mapping[str, Any]:
    if not isinstance(raw, Mapping):
        raise AgentReturnError(f"{where} returned {kind_of(raw)}; expected a dict with {', '.join(known)}")
    for key in raw:
        if key not in known:
            tally.warn_once(f"{where} {key}", f"{where} returned {key!r}, which is not used; known: {', '.join(known)}")
    return raw


def _required(answer: Mapping[str, Any], key: str, where: str) -> Any:
    if key not in answer:
        raise AgentReturnError(f"{where} returned no {key!r}, only {', '.join(map(str, answer)) or 'an empty dict'}")
    return answer[key]


def _number(value: Any, key: str, where: str) -> float:
    number = number_of(value)
    if number is None:
        raise AgentReturnError(f"{where} returned {key} {kind_of(value)}; expected one number")
    number = as_float32(number)
    return number if math.isfinite(number) else math.nan


def _flag(value: Any, where: str) -> bool:
    number = number_of(value)
    if number not in (0.0, 1.0):
        raise AgentReturnError(f"{where} returned done {kind_of(value)}; expected True or False")
    return bool(number)


def _text(value: Any, key: str, where: str) -> str:
    if not isinstance(value, str):
        raise AgentReturnError(f"{where} returned {key} {kind_of(value)}; expected a string")
    return value


def read_logs(logs: Any, where: str, tally: Tally) -> dict[str, float]:
    """The numbers of `extra_logs`; AgentReturnError where it is no mapping."""
    if logs is None:
        return {}
    if not isinstance(logs, Mapping):
        raise AgentReturnError(f"{where} returned extra_logs {kind_of(logs)}; expected a dict of numbers")
    kept = {}
    for name, value in logs.items():
        number = number_of(value)
        if number is None:
            what = f"{where} returned extra_logs[{name!r}] {kind_of(value)}, which is no number and is left out"
            tally.warn_once(f"{where} extra_logs {name}", what)
        else:
            kept[str(name)] = number
    return kept

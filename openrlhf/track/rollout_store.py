"""rollouts/step_000001.jsonl.gz: some samples of each step, as people and scripts can read them.

Their images are files in rollouts/images, named by what is in them, so that each is there once.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from openrlhf.track.rollout_file import rollout_file, rollout_files, write_samples, write_whole
from openrlhf.types import EncodedImage, Rollout, RolloutGroup, Segment

IMAGES = "images"  # folder beside the steps
_NAME_LENGTH = 16  # hex digits of a digest
_JPEG = b"\xff\xd8"


@dataclass(frozen=True, slots=True)
class TrainedSample:
    """What training made of a sample."""

    reward: float  # after penalties, clip and running normalisation
    segments: Sequence[Mapping[str, np.ndarray]]  # of each segment: name of a stream -> (L,)


TrainedSamples = Mapping[str, TrainedSample]  # by sample_id


def _finite(value: float | None) -> float | None:
    """Null for no value, and for one that is no number, which JSON cannot say."""
    return float(value) if value is not None and math.isfinite(value) else None


def _rounded(values: Iterable[float]) -> list[float | None]:
    return [_finite(round(float(value), 6)) for value in values]


def segment_row(segment: Segment, streams: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Everything of one token trajectory; index t describes token t."""
    return {
        "token_ids": segment.token_ids.tolist(),
        "action_mask": segment.action_mask.astype(int).tolist(),
        "loss_mask": segment.loss_mask.astype(int).tolist(),
        "logprobs": _rounded(segment.logprobs),
        "policy_versions": segment.policy_versions.tolist(),
        "turns": [{"start": turn.start, "end": turn.end, "reward": _finite(turn.reward)} for turn in segment.turns],
        **({"images": [image_name(image) for image in segment.images]} if segment.images else {}),
    } | {name: _rounded(stream) for name, stream in streams.items()}


def image_name(image: EncodedImage) -> str:
    """The image's file in rollouts/images."""
    return f"{image.digest[:_NAME_LENGTH]}.{'jpg' if image.data.startswith(_JPEG) else 'png'}"


def rollout_row(step: int, rollout: Rollout, trained: TrainedSample | None) -> dict[str, Any]:
    """One sample; an ungraded one has null for reward and score, one that was not trained on has no streams."""
    outcome = rollout.outcome
    added = [{}] * len(rollout.segments) if trained is None else trained.segments
    return {
        "step": step,
        "group_id": rollout.group_id,
        "sample_id": rollout.sample_id,
        "prompt_id": rollout.prompt.prompt_id,
        "prompt": rollout.prompt.text,
        "label": rollout.prompt.label,
        "response": rollout.response_text,
        "reward": _finite(outcome.reward),
        "shaped_reward": None if trained is None else _finite(trained.reward),
        "score": _finite(outcome.score),
        "status": outcome.status.value,
        "reason": outcome.reason,
        "extra_logs": {name: _finite(value) for name, value in outcome.extra_logs.items()},
        "truncated": rollout.truncated,
        "segments": [segment_row(segment, own) for segment, own in zip(rollout.segments, added, strict=True)],
    }


def spread(groups: Sequence[RolloutGroup]) -> Iterator[Rollout]:
    """The first sample of every group, then the second of every group, and so on: few samples, many prompts."""
    for round_ in zip_longest(*(group.rollouts for group in groups)):
        yield from (rollout for rollout in round_ if rollout is not None)


class RolloutStore:
    """Keeps up to `per_step` samples of each step."""

    def __init__(self, folder: Path, per_step: int) -> None:
        self._folder = folder
        self._per_step = per_step

    def clear_after(self, step: int) -> None:
        """Delete what an earlier run left in the folder for the steps after `step`."""
        for stored, path in rollout_files(self._folder).items():
            if stored > step:
                path.unlink()

    def write(self, step: int, groups: Sequence[RolloutGroup], trained: TrainedSamples) -> None:
        kept = list(islice(spread(groups), self._per_step))
        rows = [rollout_row(step, rollout, trained.get(rollout.sample_id)) for rollout in kept]
        if not rows:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        self._write_images({image for rollout in kept for segment in rollout.segments for image in segment.images})
        write_samples(rollout_file(self._folder, step), rows)

    def _write_images(self, images: Set[EncodedImage]) -> None:
        for image in images:
            path = self._folder / IMAGES / image_name(image)
            path.parent.mkdir(exist_ok=True)
            if not path.exists():
                write_whole(path, image.data)

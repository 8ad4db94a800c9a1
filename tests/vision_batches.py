"""Micro-batches of text and pictures for tests of training. `<image>` in a text is a picture."""

from collections.abc import Sequence

import numpy as np

from openrlhf.models.vision.inputs import VisionInputs
from openrlhf.rl.packing import collate, filler, pack, step_totals
from openrlhf.types import EncodedImage, Experience, MicroBatch, Prompt, RewardOutcome, Rollout, RolloutGroup, Segment

Sample = tuple[str, tuple[EncodedImage, ...], str]  # text with placeholders, its images, the response


def segment_of(vision: VisionInputs, text: str, images: tuple[EncodedImage, ...], response: str) -> Segment:
    tokenizer = vision.processor.processor.tokenizer
    marked = vision.processor.mark(text)
    prompt = vision.processor.expand(tokenizer(marked, add_special_tokens=False)["input_ids"], images)
    answer = tokenizer(response, add_special_tokens=False)["input_ids"]
    mask = np.arange(len(prompt) + len(answer)) >= len(prompt)
    return Segment(
        token_ids=np.array(prompt + answer),
        action_mask=mask,
        loss_mask=mask,
        logprobs=np.where(mask, -4.0, 0).astype(np.float32),
        policy_versions=np.where(mask, 0, -1).astype(np.int32),
        images=images,
    )


def experience_of(vision: VisionInputs, samples: Sequence[Sample]) -> Experience:
    """A row per sample; advantages alternate between 1 and -1."""
    rollouts = [
        Rollout(str(i), f"{i}/0", Prompt(i, s[0]), (segment_of(vision, *s),), RewardOutcome(1.0, 1.0), False)
        for i, s in enumerate(samples)
    ]
    experience = collate([RolloutGroup(rollout.group_id, (rollout,)) for rollout in rollouts])
    signs = np.where(np.arange(len(experience)) % 2, -1.0, 1.0)[:, None]
    experience.advantages = np.where(experience.action_mask, signs, 0).astype(np.float32)
    return experience


def micro_batches(vision: VisionInputs, samples: Sequence[Sample], cuts: Sequence[Sequence[int]]) -> list[MicroBatch]:
    """One optimiser step: the rows of each micro-batch, fillers where there are none."""
    experience = experience_of(vision, samples)
    totals = step_totals(experience, [row for rows in cuts for row in rows])
    return [pack(experience, rows, totals) if rows else filler(totals) for rows in cuts]

"""Samples that a task calls bad examples: when they leave, and what they still shape.

                    baseline of their group   batch normalisation   loss
    dropped         no                        no                    no
    none, before    yes                       no                    no
    after           yes                       yes                   no
    skip            yes                       no                    yes

Dropped ones leave their groups (`drop_bad_examples`); all others are marked in `Experience.bad_examples`.
"""

from collections.abc import Set
from dataclasses import dataclass, replace

import numpy as np

from openrlhf.config.algo import AdvantageMask
from openrlhf.rl.filtering import Dropped, FilterResult
from openrlhf.types import Experience, RolloutGroup

_MAX_EXPONENT = 80.0


@dataclass(frozen=True, slots=True)
class TokenMasks:
    """(B, T) bool each."""

    statistics: np.ndarray  # tokens that shape the batch normalisation of advantages
    trained: np.ndarray  # tokens of the loss


def token_masks(experience: Experience, mode: AdvantageMask) -> TokenMasks:
    """The loss tokens, without those that bad examples lose by the table above; for `none` as for `before`."""
    mask = experience.loss_mask
    if experience.bad_examples is None:
        return TokenMasks(mask, mask)
    others = mask & ~experience.bad_examples[:, None]
    return TokenMasks(mask if mode == "after" else others, mask if mode == "skip" else others)


def drop_bad_examples(groups: list[RolloutGroup], bad: Set[str], grouped: bool) -> FilterResult:
    """Groups without the samples whose ids are in `bad`.

    `grouped`: the estimator compares samples of a prompt, so a group left with one of them leaves too, as does an empty
    one always.
    """
    kept, dropped = [], []
    for group in groups:
        remaining = tuple(rollout for rollout in group.rollouts if rollout.sample_id not in bad)
        gone = [rollout.sample_id for rollout in group.rollouts if rollout.sample_id in bad]
        dropped += [Dropped("sample", name, "bad example") for name in gone]
        if gone and len(remaining) < (2 if grouped else 1):
            dropped.append(Dropped("group", group.group_id, f"{len(remaining)} samples beside bad examples"))
        else:
            kept.append(replace(group, rollouts=remaining) if gone else group)
    return FilterResult(kept, dropped, {})


def base_perplexity(experience: Experience, num_samples: int) -> np.ndarray | None:
    """exp(- mean reference logprob of a sample's action tokens), (num_samples,) float64, by sample id.

    None without reference logprobs; 1 for a sample without actions, or without rows.
    """
    if experience.ref_logprobs is None:
        return None
    sample = experience.sample_ids
    logprobs = np.where(experience.action_mask, experience.ref_logprobs, 0.0).sum(axis=1, dtype=np.float64)
    tokens = np.bincount(sample, weights=experience.action_mask.sum(axis=1), minlength=num_samples)
    mean = np.bincount(sample, weights=logprobs, minlength=num_samples) / np.maximum(tokens, 1)
    return np.exp(np.minimum(-mean, _MAX_EXPONENT))

"""Leaving the older part of a sample out of the loss, where weights changed while it was sampled."""

import numpy as np

from openrlhf.types import Experience


def mask_stale_tokens(experience: Experience) -> float:
    """Take every token out of `loss_mask` that is of an older policy than the newest of its sample, in place.

        loss_mask[b, t] = loss_mask[b, t] and version[b, t] == max over sample(b) of version

    The maximum is over all segments of a sample. What is left of a sample is of one policy, and never nothing, unless
    its newest tokens were out of the loss before. Returns the share of loss tokens that left, 0 without any.
    """
    rows = np.unique(experience.sample_ids, return_inverse=True)[1]
    newest = np.full(int(rows.max()) + 1, -1, dtype=experience.policy_versions.dtype)
    np.maximum.at(newest, rows, experience.policy_versions.max(axis=1))
    before = int(experience.loss_mask.sum())
    experience.loss_mask = experience.loss_mask & (experience.policy_versions == newest[rows][:, None])
    return 1 - int(experience.loss_mask.sum()) / before if before else 0.0

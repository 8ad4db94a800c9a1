"""Only the newest policy's tokens of a sample are trained on, by hand."""

import numpy as np
import pytest

from openrlhf.rl.stale_tokens import mask_stale_tokens
from tests.unit.rl.samples import experience


def test_older_tokens_of_a_sample_leave_the_loss():
    batch = experience([[0, 1, 1, 1], [0, 1, 1, 1], [0, 1, 0, 1]], [1.0, 0.0, 1.0])
    batch.policy_versions = np.array([[-1, 3, 3, 4], [-1, 2, 2, 2], [-1, 1, -1, 5]], dtype=np.int32)
    # 2 of the first sample's tokens are older than its last, none of the second's, 1 of the third's: 3 of 8.
    assert mask_stale_tokens(batch) == pytest.approx(3 / 8)
    assert batch.loss_mask.astype(int).tolist() == [[0, 0, 0, 1], [0, 1, 1, 1], [0, 0, 0, 1]]
    assert batch.action_mask.sum() == 8  # they were sampled all the same


def test_segments_of_one_sample_are_judged_together():
    batch = experience([[0, 1, 1], [0, 1, 1], [0, 1, 1]], [1.0, 1.0, 0.0])
    batch.sample_ids = np.array([7, 7, 8])
    batch.policy_versions = np.array([[-1, 1, 1], [-1, 1, 2], [-1, 1, 1]], dtype=np.int32)
    assert mask_stale_tokens(batch) == pytest.approx(3 / 6)
    assert batch.loss_mask.astype(int).tolist() == [[0, 0, 0], [0, 0, 1], [0, 1, 1]]


def test_what_was_out_of_the_loss_stays_out():
    batch = experience([[0, 1, 1]], [1.0])
    batch.loss_mask = np.array([[False, True, False]])
    batch.policy_versions = np.array([[-1, 1, 2]], dtype=np.int32)
    assert mask_stale_tokens(batch) == 1.0
    assert mask_stale_tokens(batch) == 0.0  # nothing is left to leave
    assert not batch.loss_mask.any()

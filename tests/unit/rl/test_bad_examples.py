"""When bad examples leave, and what they still shape."""

import math

import numpy as np
import pytest

from openrlhf.config.algo import AdvantageConfig, KlConfig
from openrlhf.rl.advantages.compute import compute_advantages
from openrlhf.rl.bad_examples import base_perplexity, drop_bad_examples, token_masks
from tests.unit.rl.samples import experience, group

S = math.sqrt(0.5)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        # One group with rewards 3, 1, 1, -1 of one token each; the first is bad. Minus the mean 1: 2, 0, 0, -2.
        # Without it 0, 0, -2: mean -2/3, variance (4/9 + 4/9 + 16/9)/3 = 8/9, so (2/3)/sqrt(8/9) = sqrt(1/2) and so on.
        ("none", [0, S, S, -2 * S]),
        ("before", [0, S, S, -2 * S]),
        # With it: mean 0, variance (4 + 4)/4 = 2, so -2/sqrt(2) for the last; then the first leaves.
        ("after", [0, 0, 0, -2 * S]),
        # Measured by the others' numbers: (2 + 2/3)/sqrt(8/9) = 4 sqrt(1/2).
        ("skip", [4 * S, S, S, -2 * S]),
    ],
)
def test_advantages_by_hand(mode, expected):
    batch = experience([[0, 1]] * 4, [3, 1, 1, -1], [0] * 4)
    batch.bad_examples = np.array([True, False, False, False])
    advantage = AdvantageConfig(estimator="reinforce_baseline")
    found = compute_advantages(batch, advantage, KlConfig(init_coef=0.0), 0.0, mode)
    np.testing.assert_allclose(found.advantages[:, 1], expected, atol=1e-6)
    assert (found.advantages[:, 0] == 0).all()


def test_nobody_asked_is_no_bad_example():
    batch = experience([[0, 1]] * 2, [3, 1], [0, 0])
    masks = token_masks(batch, "after")
    assert masks.trained is batch.loss_mask
    assert masks.statistics is batch.loss_mask


def test_dropped_samples_leave_their_groups():
    groups = [group("a", [1, 0, 0]), group("b", [1, 0]), group("c", [1, 1])]
    result = drop_bad_examples(groups, {"a/0", "b/1"}, grouped=True)
    assert [[r.sample_id for r in kept.rollouts] for kept in result.kept] == [["a/1", "a/2"], ["c/0", "c/1"]]
    assert [(d.kind, d.id) for d in result.dropped] == [("sample", "a/0"), ("sample", "b/1"), ("group", "b")]
    alone = drop_bad_examples(groups, {"b/1"}, grouped=False)
    assert [len(kept.rollouts) for kept in alone.kept] == [3, 1, 2]
    assert len(drop_bad_examples(groups, {"b/0", "b/1"}, grouped=False).kept) == 2


def test_perplexity_of_the_reference_over_the_action_tokens_of_a_sample():
    # Sample 0 has two segments with actions of logprob -1, -2 and -3: exp(2). Sample 1: exp(0.5). Sample 2: no action.
    batch = experience([[0, 1, 1], [0, 0, 1], [0, 1, 0], [0, 0, 0]], [1, 1, 0, 0], [0] * 4)
    assert base_perplexity(batch, 3) is None
    batch.sample_ids = np.array([0, 0, 1, 2])
    batch.ref_logprobs = np.array([[9, -1, -2], [9, 9, -3], [9, -0.5, 9], [9, 9, 9]], dtype=np.float32)
    np.testing.assert_allclose(base_perplexity(batch, 3), [math.exp(2), math.exp(0.5), 1.0])
    batch.ref_logprobs[:] = -1e4
    assert np.isfinite(base_perplexity(batch, 3)).all()
    batch.sample_ids = np.array([0, 0, 2, 3])  # sample 1 and 4 have no rows
    batch.ref_logprobs = np.array([[9, -1, -2], [9, 9, -3], [9, -0.5, 9], [9, 9, 9]], dtype=np.float32)
    np.testing.assert_allclose(base_perplexity(batch, 5), [math.exp(2), 1.0, math.exp(0.5), 1.0, 1.0])

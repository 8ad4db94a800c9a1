"""GSPO: one ratio per sequence."""

import math

import pytest

from openrlhf.rl.correction import Correction
from openrlhf.rl.losses.aggregation import Aggregation
from openrlhf.rl.losses.gspo import gspo
from openrlhf.rl.losses.objective import PolicyObjective
from openrlhf.rl.losses.policy_loss import policy_loss
from openrlhf.rl.losses.tokens import select
from openrlhf.rl.metrics import finalize
from tests.unit.rl.losses.making import streams, totals


def objective(**settings):
    return PolicyObjective(loss_type="gspo", aggregation=Aggregation("sequence"), **settings)


def pair(**others):
    """Sequence 0: log ratios 0.3 and -0.1, mean 0.1. Sequence 1: 0.5 (and one masked token)."""
    return streams(
        [-0.7, -1.1, -0.5, 9.0], [1.0, 1.0, 2.0, 7.0], [1, 1, 1, 0], [0, 2, 4], old_logprobs=[-1.0] * 4, **others
    )


def test_by_hand():
    # s = exp(0.1) = 1.105 for both tokens of sequence 0; exp(0.5) = 1.65 is clipped to 1.2, times A = 2.
    found = pair()
    result = gspo(select(found), objective())
    assert result.losses.tolist() == pytest.approx([-math.exp(0.1), -math.exp(0.1), -2.4])
    assert result.clipped.tolist() == [False, False, True]
    # The loss is the mean of -1.105 and -2.4. d s / d logprob = s / 2 for each of the 2 tokens, and the losses of both
    # move with it, so the slope is -s/2 * (1/2 + 1/2) / 2 sequences = -s / 4.
    share = policy_loss(found, totals(found), objective())
    share.loss.backward()
    assert share.loss.item() == pytest.approx((-math.exp(0.1) - 2.4) / 2)
    assert found.logprobs.grad.tolist() == pytest.approx([-math.exp(0.1) / 4, -math.exp(0.1) / 4, 0, 0])


def test_with_a_correction_the_ratio_is_to_the_sampling_policy():
    """The mean log ratio is against the engine's logprobs, and no weight is applied on top of it."""
    found = pair(rollout_logprobs=[-0.9, -1.1, -0.6, math.nan])
    result = policy_loss(found, totals(found), objective(correction=Correction("tis", 0.99, 1.01)))
    # new - rollout: 0.2, 0.0 -> mean 0.1; 0.1 -> exp(0.1) for both, A = 1 and 2.
    assert result.loss.item() == pytest.approx(-math.exp(0.1) * 1.5)
    logged = finalize(result.metrics)
    # old - rollout: -0.1, 0.1, -0.4.
    assert logged["train/is_weight_mean"] == pytest.approx((math.exp(-0.1) + math.exp(0.1) + math.exp(-0.4)) / 3)
    assert "train/is_clamped_rate" not in logged


def test_log_ratio_is_clamped_after_the_mean():
    found = streams([0.0, 0.0], [-1.0, -1.0], [1, 1], old_logprobs=[-90.0, 0.0])
    assert gspo(select(found), objective()).losses.tolist() == pytest.approx([math.exp(20)] * 2)


def test_one_token_per_sequence_is_ppo():
    found = streams([-0.9, -1.4], [1.0, -2.0], [1, 1], [0, 1, 2], old_logprobs=[-1.0, -1.0])
    same = PolicyObjective(aggregation=Aggregation("sequence"))
    assert policy_loss(found, totals(found), objective()).loss == policy_loss(found, totals(found), same).loss

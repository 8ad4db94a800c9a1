"""CISPO: bounded weights on log-probabilities."""

import math

import pytest

from openrlhf.rl.losses.cispo import cispo
from openrlhf.rl.losses.objective import PolicyObjective
from openrlhf.rl.losses.policy_loss import policy_loss
from openrlhf.rl.losses.tokens import select
from tests.unit.rl.losses.making import streams, totals

OBJECTIVE = PolicyObjective(loss_type="cispo")


def test_by_hand():
    # Ratios 1.1, 1.5 -> 1.2, 0.5 -> 0.8 with A = 2, 2, -1; the new logprobs are log ratio - 1.
    new = [math.log(ratio) - 1 for ratio in (1.1, 1.5, 0.5)]
    found = streams(new, [2.0, 2.0, -1.0], [1, 1, 1], old_logprobs=[-1.0] * 3)
    result = cispo(select(found), OBJECTIVE)
    assert result.losses.tolist() == pytest.approx([-2.2 * new[0], -2.4 * new[1], 0.8 * new[2]])
    assert result.clipped.tolist() == [False, True, True]
    # The gradient goes on where PPO's would stop: -weight * A, over 3 tokens.
    policy_loss(found, totals(found), OBJECTIVE).loss.backward()
    assert found.logprobs.grad.tolist() == pytest.approx([-2.2 / 3, -2.4 / 3, 0.8 / 3])


def test_on_policy_the_gradient_is_reinforce():
    found = streams([-1.7, -0.3, -2.2], [2.0, -3.0, 5.0], [1, 1, 0])
    policy_loss(found, totals(found), OBJECTIVE).loss.backward()
    assert found.logprobs.grad.tolist() == [-1.0, 1.5, 0.0]


def test_log_ratio_is_clamped():
    found = streams([-1.0], [1.0], [1], old_logprobs=[-1e4])
    objective = PolicyObjective(loss_type="cispo", clip_high=math.inf)
    assert cispo(select(found), objective).losses.item() == pytest.approx(math.exp(20))

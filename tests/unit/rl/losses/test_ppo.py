"""PPO: one ratio per token."""

import math

import pytest

from openrlhf.rl.losses.objective import PolicyObjective
from openrlhf.rl.losses.policy_loss import policy_loss
from openrlhf.rl.losses.ppo import ppo
from openrlhf.rl.losses.tokens import select
from openrlhf.rl.metrics import finalize
from tests.unit.rl.losses.making import streams, totals


def test_by_hand():
    # Ratios 1.1 and 1.5 (clipped to 1.2), A = 1: losses -1.1, -1.2; slopes by the logprob -ratio, 0.
    found = streams([math.log(1.1), math.log(1.5)], [1.0, 1.0], [1, 1], old_logprobs=[0.0, 0.0])
    result = ppo(select(found), PolicyObjective())
    result.losses.sum().backward()
    assert result.losses.tolist() == pytest.approx([-1.1, -1.2])
    assert result.clipped.tolist() == [False, True]
    assert found.logprobs.grad.tolist() == pytest.approx([-1.1, 0.0])


def test_log_ratio_is_clamped():
    found = streams([0.0], [-1.0], [1], old_logprobs=[-1e4])
    result = policy_loss(found, totals(found), PolicyObjective())
    assert result.loss.item() == pytest.approx(math.exp(20), rel=1e-5)


def test_without_old_logprobs_the_step_is_on_policy():
    """Ratio exactly 1, so the gradient is plain REINFORCE: -A / tokens."""
    found = streams([-1.7, -0.3, -2.2], [2.0, -3.0, 5.0], [1, 1, 0])
    result = policy_loss(found, totals(found), PolicyObjective())
    result.loss.backward()
    assert result.loss.item() == pytest.approx(0.5)  # (-2 + 3) / 2
    assert found.logprobs.grad.tolist() == [-1.0, 1.5, 0.0]
    assert finalize(result.metrics)["train/ppo_kl"] == 0.0
    assert finalize(result.metrics)["train/ppo_clip_ratio"] == 0.0

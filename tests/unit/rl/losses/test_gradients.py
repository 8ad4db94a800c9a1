"""Every loss's gradient against central differences in float64."""

import itertools
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from openrlhf.rl.correction import Correction
from openrlhf.rl.losses.objective import PolicyObjective
from openrlhf.rl.losses.policy_loss import policy_loss
from openrlhf.rl.losses.tokens import LossStreams
from openrlhf.rl.losses.value_loss import ValueStreams, value_loss
from tests.unit.rl.losses.making import AGGREGATIONS, corrected_objectives, label, objectives, totals

STEP = 1e-6
CU = torch.tensor([0, 3, 4, 9, 12])


def central_differences(function: Callable[[torch.Tensor], float], at: torch.Tensor) -> torch.Tensor:
    gradient = torch.zeros_like(at)
    for i in range(len(at)):
        ahead, behind = at.clone(), at.clone()
        ahead[i] += STEP
        behind[i] -= STEP
        gradient[i] = (function(ahead) - function(behind)) / (2 * STEP)
    return gradient


def random_streams(seed: int = 0) -> LossStreams:
    rng = np.random.default_rng(seed)
    new = -2 * rng.random(12)
    old, ref = new + rng.normal(scale=0.3, size=12), new + rng.normal(scale=0.5, size=12)
    mask = rng.random(12) < 0.75
    mask[3] = False  # a sequence without loss tokens
    numbers = (new, old + rng.normal(scale=0.5, size=12), rng.normal(size=12), mask)
    return LossStreams(*map(torch.from_numpy, numbers), CU, *map(torch.from_numpy, (old, ref, rng.random(12))))


def gradients(found: LossStreams, objective: PolicyObjective) -> tuple[torch.Tensor, torch.Tensor]:
    """By the logprobs and by the entropy."""
    leaves = [found.logprobs.clone().requires_grad_(), found.entropy.clone().requires_grad_()]
    streams = replace(found, logprobs=leaves[0], entropy=leaves[1])
    policy_loss(streams, totals(found), objective, kl_coef=0.3).loss.backward()
    return leaves[0].grad, leaves[1].grad


CASES = [
    objective
    for objective in corrected_objectives(entropy_coef=0.2, kl_estimator="k3", kl_in_loss=True)
    if objective.loss_type != "cispo"
]


@pytest.mark.parametrize("objective", CASES, ids=label)
def test_ppo_and_gspo(objective):
    check(random_streams(), objective)


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_kl(estimator):
    found = random_streams(1)
    check(replace(found, advantages=torch.zeros(12)), PolicyObjective(kl_estimator=estimator, kl_in_loss=True))


def test_asymmetric_and_dual_clip():
    for seed in range(3):
        found = random_streams(seed)
        found = replace(found, old_logprobs=found.old_logprobs - 0.5, advantages=-found.advantages.abs())
        check(found, PolicyObjective(clip_low=0.1, clip_high=0.4, dual_clip=1.5))


def check(found: LossStreams, objective: PolicyObjective) -> None:
    by_logprobs, by_entropy = gradients(found, replace(objective, entropy_coef=0.2))
    objective = replace(objective, entropy_coef=0.2)

    def loss(**changed: torch.Tensor) -> float:
        return policy_loss(replace(found, **changed), totals(found), objective, kl_coef=0.3).loss.item()

    expected = central_differences(lambda x: loss(logprobs=x), found.logprobs)
    assert expected.norm() > 1e-3
    torch.testing.assert_close(by_logprobs, expected, rtol=1e-6, atol=1e-8)
    torch.testing.assert_close(
        by_entropy, central_differences(lambda x: loss(entropy=x), found.entropy), atol=1e-8, rtol=0
    )


@pytest.mark.parametrize("correction", [None, Correction("icepop", 0.5, 5.0)], ids=["none", "icepop"])
def test_cispo_with_its_weights_held_still(correction):
    """No gradient flows through the weights, so the differences are taken of the loss with the weights of one point."""
    for objective in objectives(correction=correction):
        if objective.loss_type == "cispo":
            found = random_streams()
            old = found.old_logprobs
            weight = (found.logprobs - old).exp().clamp(0.8, 1.2)

            def frozen(x, found=found, weight=weight, objective=objective):
                """A plain ppo loss whose ratio is 1 + x - x0, times the frozen weight and advantage."""
                mask, size = found.loss_mask, totals(found)
                if objective.correction is not None:
                    ratio = (found.old_logprobs - found.rollout_logprobs).exp()
                    weight = weight * ratio * ((ratio >= 0.5) & (ratio <= 5.0))
                losses = torch.where(mask, -weight * found.advantages * x, 0.0)
                share = torch.ones(12, dtype=torch.float64)
                if objective.aggregation.mode == "sequence":
                    for start, end in itertools.pairwise(CU.tolist()):
                        share[start:end] = 1 / max(int(mask[start:end].sum()), 1)
                if objective.aggregation.mode == "constant":
                    share = share / objective.aggregation.length
                return ((losses * share).sum() / objective.aggregation.denominator(size)).item()

            leaf = found.logprobs.clone().requires_grad_()
            result = policy_loss(replace(found, logprobs=leaf), totals(found), objective)
            result.loss.backward()
            assert result.loss.item() == pytest.approx(frozen(found.logprobs), rel=1e-12)
            torch.testing.assert_close(leaf.grad, central_differences(frozen, found.logprobs), rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("aggregation", AGGREGATIONS, ids=lambda a: a.mode)
@pytest.mark.parametrize("clip", [None, 0.2])
def test_value_loss(aggregation, clip):
    rng = np.random.default_rng(0)
    values, old, returns = map(torch.from_numpy, rng.normal(size=(3, 12)))
    found = ValueStreams(values.requires_grad_(), old, returns, torch.from_numpy(rng.random(12) < 0.7), CU)
    value_loss(found, totals(found), clip, aggregation).loss.backward()

    def loss(x):
        return value_loss(replace(found, values=x), totals(found), clip, aggregation).loss.item()

    expected = central_differences(loss, values.detach())
    torch.testing.assert_close(values.grad, expected, rtol=1e-6, atol=1e-8)

"""The policy loss as a whole: by hand, against the reference, and the same in any layout (case b2)."""

import itertools
import math

import numpy as np
import pytest
import torch

from openrlhf.rl.losses.aggregation import Aggregation
from openrlhf.rl.losses.objective import PolicyObjective
from openrlhf.rl.losses.policy_loss import policy_loss
from openrlhf.rl.losses.tokens import LossStreams
from openrlhf.rl.metrics import finalize
from openrlhf.types import StepTotals
from tests.unit.rl import reference
from tests.unit.rl.losses.making import (
    AGGREGATIONS,
    ALL_CORRECTIONS,
    LENGTH,
    corrected_objectives,
    label,
    streams,
    totals,
)


def test_metrics_by_hand():
    # Loss tokens 0 and 1: new - old = 0.1, 0.3 -> ppo_kl = -0.2. rollout - old = 0.5, -0.1: mean 0.2, mean abs 0.3,
    # max abs 0.5; k3 is exp(-d) - 1 + d for d = 0.5, -0.1. ref: new - ref = 1, 3 -> k1 mean 2. Entropies 1 and 2.
    found = streams(
        [-0.9, -0.7, 0.0],
        [1.0, 1.0, 1.0],
        [1, 1, 0],
        old_logprobs=[-1.0, -1.0, 0.0],
        rollout_logprobs=[-0.5, -1.1, 9.0],
        ref_logprobs=[-1.9, -3.7, 0.0],
        entropy=[1.0, 2.0, 0.0],
    )
    result = policy_loss(found, totals(found), PolicyObjective(entropy_coef=0.0))
    values = finalize(result.metrics)
    expected = {
        "train/policy_loss": -(math.exp(0.1) + 1.2) / 2,  # exp(0.3) = 1.35 is clipped to 1.2
        "train/kl": 2.0,
        "train/entropy": 1.5,
        "train/ppo_kl": -0.2,
        "train/ppo_clip_ratio": 0.5,
        "train/vllm_kl": 0.2,
        "train/vllm_kl_k3": (math.exp(-0.5) - 0.5 + math.exp(0.1) - 1.1) / 2,
        "train/logprobs_diff": 0.3,
        "train/logprobs_diff_max": 0.5,
    }
    assert values == pytest.approx(expected, abs=1e-6)


def test_kl_and_entropy_enter_the_loss_with_the_same_normaliser():
    # Policy terms 0 (A = 0). k2 of d = 1, 2: 0.5, 2. Entropies 1, 3. Token mean: 1.25 and 2; per sequence of 1 and 1
    # tokens the same. loss = 0.1 * 1.25 - 0.01 * 2 = 0.105.
    found = streams([-1.0, -1.0], [0.0, 0.0], [1, 1], [0, 1, 2], ref_logprobs=[-2.0, -3.0], entropy=[1.0, 3.0])
    for aggregation in ("token", "sequence"):
        objective = PolicyObjective(
            aggregation=Aggregation(aggregation), entropy_coef=0.01, kl_estimator="k2", kl_in_loss=True
        )
        assert policy_loss(found, totals(found), objective, kl_coef=0.1).loss.item() == pytest.approx(0.105)
        # KL outside the loss is only measured.
        objective = PolicyObjective(aggregation=Aggregation(aggregation), entropy_coef=0.01, kl_estimator="k2")
        result = policy_loss(found, totals(found), objective, kl_coef=0.1)
        assert result.loss.item() == pytest.approx(-0.02)
        assert finalize(result.metrics)["train/kl"] == pytest.approx(1.25)


def test_missing_streams_are_named():
    found = streams([0.0], [1.0], [1])
    with pytest.raises(ValueError, match="reference"):
        policy_loss(found, totals(found), PolicyObjective(kl_in_loss=True), kl_coef=0.1)
    with pytest.raises(ValueError, match="entropy"):
        policy_loss(found, totals(found), PolicyObjective(entropy_coef=0.0))


def test_with_a_constant_length_kl_and_entropy_are_logged_per_token():
    # 2 tokens in one sequence, L = 8: k2 of d = 1, 2 sum to 2.5, the loss term is 0.1 * 2.5 / 8, the logged mean 1.25.
    found = streams([-1.0, -1.0], [0.0, 0.0], [1, 1], ref_logprobs=[-2.0, -3.0], entropy=[1.0, 3.0])
    objective = PolicyObjective(
        aggregation=Aggregation("constant", 8), entropy_coef=0.0, kl_estimator="k2", kl_in_loss=True
    )
    result = policy_loss(found, totals(found), objective, kl_coef=0.1)
    assert result.loss.item() == pytest.approx(0.25 / 8)
    logged = finalize(result.metrics)
    assert (logged["train/kl"], logged["train/entropy"]) == pytest.approx((1.25, 2.0))


EVERYTHING = list(corrected_objectives(clip_high=0.3, entropy_coef=0.01, kl_estimator="k3", kl_in_loss=True))


@pytest.mark.parametrize("objective", EVERYTHING, ids=label)
def test_matches_the_reference(objective):
    for seed in range(3):
        check_against_reference(objective, np.random.default_rng(seed))


@pytest.mark.parametrize("aggregation", AGGREGATIONS, ids=lambda a: a.mode)
def test_dual_clip_matches_the_reference(aggregation):
    objective = PolicyObjective(
        clip_high=0.3, dual_clip=1.5, aggregation=aggregation, entropy_coef=0.01, kl_estimator="k3", kl_in_loss=True
    )
    for seed in range(3):
        check_against_reference(objective, np.random.default_rng(seed))


def check_against_reference(objective, rng):
    lengths = rng.integers(1, 7, size=5)
    cu = np.concatenate([[0], np.cumsum(lengths)]).tolist()
    n = cu[-1]
    new, old, ref = (-2 * rng.random(n) for _ in range(3))
    rollout = old + rng.normal(scale=1.0, size=n)
    mask = rng.random(n) < 0.6
    mask[0] = True
    mask[cu[2] : cu[3]] = False  # a fully masked sequence
    advantages, entropies = rng.normal(size=n), rng.random(n)
    found = LossStreams(
        *map(torch.from_numpy, (new, rollout, advantages, mask)),
        torch.tensor(cu),
        *map(torch.from_numpy, (old, ref, entropies)),
    )
    result = policy_loss(found, totals(found), objective, kl_coef=0.05)

    policy, kl, entropy = [], [], []
    for start, end in itertools.pairwise(cu):
        picked = [t for t in range(start, end) if mask[t]]
        policy.append(reference_policy(objective, *(stream[picked] for stream in (new, old, rollout, advantages))))
        kl.append([reference.kl(new[t], ref[t], "k3") for t in picked])
        entropy.append([entropies[t] for t in picked])
    mode = objective.aggregation.mode
    parts = [reference.aggregate(part, mode, LENGTH) for part in (policy, kl, entropy)]
    assert result.loss.item() == pytest.approx(parts[0] + 0.05 * parts[1] - 0.01 * parts[2], rel=1e-10)
    logged = [reference.aggregate(part, "token" if mode == "constant" else mode) for part in (kl, entropy)]
    values = finalize(result.metrics)
    assert [values["train/policy_loss"], values["train/kl"], values["train/entropy"]] == pytest.approx(
        [parts[0], *logged], rel=1e-10
    )


def reference_policy(objective, new, old, rollout, advantages):
    """The loss of every token of one sequence."""
    correction, gspo = objective.correction, objective.loss_type == "gspo"
    behaviour = rollout if gspo and correction is not None else old
    settings = (objective.clip_low, objective.clip_high, objective.dual_clip)
    losses = [
        reference.policy_token(objective.loss_type, new, behaviour, advantages, i, *settings) for i in range(len(new))
    ]
    if correction is None or gspo:
        return losses
    ratios = (old - rollout).tolist()
    weights = [reference.importance_weight(correction.kind, ratios, i, 0.5, 5.0) for i in range(len(ratios))]
    return [loss * weight for loss, weight in zip(losses, weights, strict=True)]


def test_a_step_without_any_loss_token_is_zero():
    found = streams([-1.0], [1.0], [0])
    assert policy_loss(found, StepTotals(0, 0), PolicyObjective()).loss.item() == 0.0


# What a token of loss 1 is made of in each part of the loss, at theta = 1; its slope by theta is 1 as well.
PARTS = {
    "ppo": {"objective": {}, "advantage": -1.0},  # on-policy: the loss is -A
    "gspo": {"objective": {"loss_type": "gspo"}, "advantage": -1.0},
    "cispo": {"objective": {"loss_type": "cispo"}, "advantage": -1.0},  # -A times the logprob, which is theta
    "tis": {"objective": {"correction": ALL_CORRECTIONS[1]}, "advantage": -1.0},
    "kl": {"objective": {"kl_in_loss": True}, "ref": 0.0},  # k1: theta - 0
    "entropy": {"objective": {"entropy_coef": 1.0}, "entropy": -1.0},  # minus -theta
}


@pytest.mark.parametrize("layout", [[[0, 1]], [[0], [1]]])
@pytest.mark.parametrize(
    ("part", "aggregation", "expected"),
    # 2/10 by token, (1 + 0)/2 by sequence, 2/(2 * 8) by a constant length of 8.
    [
        (part, aggregation, expected)
        for part in PARTS
        for aggregation, expected in zip(AGGREGATIONS, (0.2, 0.5, 0.125), strict=True)
        if part != "gspo" or aggregation.mode == "sequence"
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_case_b2(layout, part, aggregation, expected):
    """2 tokens with loss 1 each and 8 with loss 0, in one micro-batch or two.

    Shares of two ranks are added just the same (the caller undoes the averaging), so this covers two ranks too; so does
    dynamic batching, which only chooses the layout.
    """
    objective = PolicyObjective(aggregation=aggregation, **PARTS[part]["objective"])
    step = StepTotals(tokens=10, sequences=2)
    theta = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    loss = 0.0
    for rows in layout:
        share = policy_loss(b2_streams(rows, theta, PARTS[part]), step, objective, kl_coef=1.0).loss
        share.backward()
        loss += share.item()
    assert loss == pytest.approx(expected, abs=1e-6)
    assert theta.grad.item() == pytest.approx(expected, abs=1e-6)


def b2_streams(rows, theta, part):
    """Sequence 0 has 2 tokens of loss 1, sequence 1 has 8 of loss 0; every token's logprob is theta."""
    lengths = [(2, 8)[row] for row in rows]
    ones = torch.ones(sum(lengths), dtype=torch.float64)
    heavy = torch.cat(
        [torch.full((n,), float(row == 0), dtype=torch.float64) for n, row in zip(lengths, rows, strict=True)]
    )
    logprobs = theta * ones
    ref = part.get("ref")
    return LossStreams(
        logprobs,
        logprobs.detach(),
        part.get("advantage", 0.0) * heavy,
        torch.ones(len(ones), dtype=torch.bool),
        torch.from_numpy(np.cumsum([0, *lengths])),
        # Tokens of loss 0 have a reference that moves along.
        ref_logprobs=None if ref is None else torch.where(heavy > 0, ref, logprobs),
        entropy=part["entropy"] * theta * heavy if "entropy" in part else None,
    )

"""The policy loss: by hand, against the reference, and with broken values at masked positions (case b1)."""

import itertools
import math

import numpy as np
import pytest
import torch

from openrlhf.config.algo import AdvantageConfig, AlgoConfig, KlConfig
from openrlhf.config.model import ActorConfig
from openrlhf.rl.correction import Correction
from openrlhf.rl.losses.aggregation import Aggregation
from openrlhf.rl.losses.objective import PolicyObjective
from openrlhf.rl.losses.policy_loss import policy_loss
from openrlhf.rl.losses.share import check_finite
from openrlhf.rl.losses.tokens import LossStreams
from openrlhf.rl.metrics import finalize
from openrlhf.types import StepTotals
from tests.unit.rl import reference

CORRECTIONS = [None, *(Correction(kind, 0.5, 5.0) for kind in ("tis", "icepop", "seq-mask-tis"))]


def streams(logprobs, advantages, mask, cu_seqlens=None, **others):
    """Streams from lists; the rollout logprobs are 0 unless given."""
    n = len(logprobs)
    others = {"rollout_logprobs": [0.0] * n} | others
    return LossStreams(
        logprobs=torch.tensor(logprobs, requires_grad=True),
        advantages=torch.tensor(advantages),
        loss_mask=torch.tensor(mask, dtype=torch.bool),
        cu_seqlens=torch.tensor(cu_seqlens or [0, n]),
        **{name: torch.tensor(value) for name, value in others.items()},
    )


def totals(found: LossStreams) -> StepTotals:
    """The denominators of a step that consists of this micro-batch alone."""
    rows = [found.loss_mask[a:b].any().item() for a, b in itertools.pairwise(found.cu_seqlens)]
    return StepTotals(float(found.loss_mask.sum()), float(sum(rows)))


@pytest.mark.parametrize(
    ("ratio", "advantage", "expected", "slope", "clipped"),
    [
        # clip 0.2 below, 0.3 above; slope is d loss / d logprob = -ratio * A inside, 0 where the clip acts.
        (1.0, 2.0, -2.0, -2.0, 0),
        (1.25, 2.0, -2.5, -2.5, 0),
        (1.5, 2.0, -2.6, 0.0, 1),  # -1.3 * 2
        (0.5, 2.0, -1.0, -1.0, 0),  # the smaller surrogate is the free one
        (0.5, -2.0, 1.6, 0.0, 1),  # 0.8 * 2
        (1.5, -2.0, 3.0, 3.0, 0),
        (4.0, -2.0, 8.0, 8.0, 0),
    ],
)
def test_ppo_clip_by_hand(ratio, advantage, expected, slope, clipped):
    found = streams([math.log(ratio)], [advantage], [1], old_logprobs=[0.0])
    result = policy_loss(found, totals(found), PolicyObjective(clip_low=0.2, clip_high=0.3))
    result.loss.backward()
    assert result.loss.item() == pytest.approx(expected, rel=1e-6)
    assert found.logprobs.grad.item() == pytest.approx(slope, rel=1e-6)
    assert result.metrics["train/ppo_clip_ratio"].total == clipped


@pytest.mark.parametrize(
    ("ratio", "advantage", "expected"),
    # c = 3: for A = -2 the loss is at most 6; a ratio of 4 gives 8 without it. A > 0 is never touched.
    [(4.0, -2.0, 6.0), (2.0, -2.0, 4.0), (4.0, 2.0, -2.4)],
)
def test_dual_clip_by_hand(ratio, advantage, expected):
    found = streams([math.log(ratio)], [advantage], [1], old_logprobs=[0.0])
    result = policy_loss(found, totals(found), PolicyObjective(dual_clip=3.0))
    assert result.loss.item() == pytest.approx(expected, rel=1e-6)


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


def test_objective_from_config():
    algo = AlgoConfig(kl=KlConfig(use_loss=True, estimator="k3"), advantage=AdvantageConfig(is_correction_enable=True))
    actor = ActorConfig(eps_clip=0.1, dual_clip=3.0, entropy_coef=0.0, loss_aggregation="sequence")
    assert PolicyObjective.from_config(actor, algo) == PolicyObjective(
        0.1, 0.1, 3.0, Aggregation("sequence"), 0.0, "k3", True, Correction("tis", 0.5, 5.0)
    )
    asymmetric = PolicyObjective.from_config(ActorConfig(eps_clip_low_high=(0.2, 0.28)), AlgoConfig())
    assert (asymmetric.clip_low, asymmetric.clip_high, asymmetric.correction) == (0.2, 0.28, None)
    constant = PolicyObjective.from_config(ActorConfig(loss_aggregation="constant"), algo, 512)
    assert constant.aggregation == Aggregation("constant", 512)


@pytest.mark.parametrize(
    ("actor", "message"),
    [
        (
            {"policy_loss_type": "gspo"},
            "'gspo' has one ratio per sequence and needs aggregation 'sequence', not 'token'",
        ),
        (
            {"policy_loss_type": "cispo", "dual_clip": 3.0},
            "'cispo' bounds every ratio already; dual clip 3.0 has no effect",
        ),
        ({"loss_aggregation": "constant"}, "'constant' needs a length of at least 1, got None"),
    ],
)
def test_parts_that_cannot_go_together(actor, message):
    with pytest.raises(ValueError, match=message):
        PolicyObjective.from_config(ActorConfig(**actor), AlgoConfig())


@pytest.mark.parametrize("aggregation", ["token", "sequence"])
@pytest.mark.parametrize("correction", CORRECTIONS)
@pytest.mark.parametrize("dual_clip", [None, 2.0])
def test_matches_the_reference(aggregation, correction, dual_clip):
    for seed in range(8):
        check_against_reference(aggregation, correction, dual_clip, np.random.default_rng(seed))


def check_against_reference(aggregation, correction, dual_clip, rng):
    lengths = rng.integers(1, 7, size=5)
    cu = np.concatenate([[0], np.cumsum(lengths)]).tolist()
    n = cu[-1]
    new, old, rollout, ref = (-2 * rng.random(n) for _ in range(4))
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
    objective = PolicyObjective(0.2, 0.3, dual_clip, Aggregation(aggregation), 0.01, "k3", True, correction)
    result = policy_loss(found, totals(found), objective, kl_coef=0.05)

    policy, kl, entropy = [], [], []
    for start, end in itertools.pairwise(cu):
        picked = [t for t in range(start, end) if mask[t]]
        ratios = [old[t] - rollout[t] for t in picked]
        policy.append([reference.ppo_token(new[t], old[t], advantages[t], 0.2, 0.3, dual_clip) for t in picked])
        if correction is not None:
            for i in range(len(picked)):
                policy[-1][i] *= reference.importance_weight(correction.kind, ratios, i, 0.5, 5.0)
        kl.append([reference.kl(new[t], ref[t], "k3") for t in picked])
        entropy.append([entropies[t] for t in picked])
    parts = [reference.aggregate(part, aggregation) for part in (policy, kl, entropy)]
    assert result.loss.item() == pytest.approx(parts[0] + 0.05 * parts[1] - 0.01 * parts[2], rel=1e-10)
    values = finalize(result.metrics)
    found_parts = [values[f"train/{name}"] for name in ("policy_loss", "kl", "entropy")]
    assert found_parts == pytest.approx(parts, rel=1e-10)


def objective_with_everything(correction, aggregation="token"):
    return PolicyObjective(
        dual_clip=3.0,
        aggregation=Aggregation(aggregation),
        entropy_coef=0.01,
        kl_estimator="k3",
        kl_in_loss=True,
        correction=correction,
    )


@pytest.mark.parametrize("broken", [math.nan, -1e4, math.inf, -math.inf])
def test_case_b1_runs_1_and_2(broken):
    """log_probs [0, 0], old [0, broken], advantages [1, 1], mask [1, 0] -> loss -1, KL metric 0, gradient [-1, 0]."""
    found = streams([0.0, 0.0], [1.0, 1.0], [1, 0], old_logprobs=[0.0, broken])
    result = policy_loss(found, totals(found), PolicyObjective())
    result.loss.backward()
    assert result.loss.item() == -1.0
    assert found.logprobs.grad.tolist() == [-1.0, 0.0]
    assert finalize(result.metrics)["train/ppo_kl"] == 0.0
    check_finite(result, "step 1")


def test_case_b1_run_3():
    found = streams([0.0, 0.0], [1.0, 1.0], [1, 0], old_logprobs=[math.nan, 0.0])
    result = policy_loss(found, totals(found), PolicyObjective())
    assert result.loss.isnan()
    with pytest.raises(FloatingPointError, match="step 7: loss = nan"):
        check_finite(result, "step 7")


CLEAN = {
    "logprobs": [-0.5, -1.0, -0.7, -0.2],
    "advantages": [1.0, -2.0, 0.5, 1.0],
    "old_logprobs": [-0.6, -0.9, -0.7, -0.2],
    "rollout_logprobs": [-0.7, -0.8, -0.6, -0.2],
    "ref_logprobs": [-0.4, -1.2, -0.7, -0.1],
    "entropy": [1.0, 2.0, 1.5, 0.5],
}


def run(where, name, broken, correction, aggregation):
    """Two sequences of 2 tokens with mask 1 1, 1 0; one value replaced."""
    values = {key: list(value) for key, value in CLEAN.items()}
    if name is not None:
        values[name][where] = broken
    found = streams(values.pop("logprobs"), values.pop("advantages"), [1, 1, 1, 0], [0, 2, 4], **values)
    result = policy_loss(found, totals(found), objective_with_everything(correction, aggregation), kl_coef=0.1)
    result.loss.backward()
    return result, found.logprobs.grad


@pytest.mark.parametrize("aggregation", ["token", "sequence"])
@pytest.mark.parametrize("correction", CORRECTIONS)
def test_broken_values_off_the_mask_change_nothing_at_all(correction, aggregation):
    clean, clean_grad = run(3, None, 0.0, correction, aggregation)
    for name, broken in itertools.product(CLEAN, (math.nan, math.inf, -math.inf, -1e4)):
        found, grad = run(3, name, broken, correction, aggregation)
        assert torch.equal(found.loss, clean.loss)
        assert torch.equal(grad, clean_grad)
        assert found.metrics == clean.metrics


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_broken_values_on_the_mask_are_never_hidden(correction):
    for name, broken in itertools.product(CLEAN, (math.nan, math.inf, -math.inf)):
        found, _ = run(1, name, broken, correction, "token")
        with pytest.raises(FloatingPointError):
            check_finite(found, "step")


def test_a_micro_batch_without_loss_tokens_is_a_connected_zero():
    found = streams([math.nan, -1.0], [1.0, 1.0], [0, 0], ref_logprobs=[0.0, 0.0], entropy=[0.0, 0.0])
    for correction in CORRECTIONS:
        for aggregation in ("token", "sequence"):
            result = policy_loss(
                found, StepTotals(10, 3), objective_with_everything(correction, aggregation), kl_coef=0.1
            )
            result.loss.backward()
            assert result.loss.item() == 0.0
            assert found.logprobs.grad.tolist() == [0.0, 0.0]
            assert finalize(result.metrics) == {}


def test_a_step_without_any_loss_token_is_zero():
    found = streams([-1.0], [1.0], [0])
    assert policy_loss(found, StepTotals(0, 0), PolicyObjective()).loss.item() == 0.0


@pytest.mark.parametrize("layout", [[[0, 1]], [[0], [1]]])
@pytest.mark.parametrize(("aggregation", "expected"), [("token", 0.2), ("sequence", 0.5)])
def test_case_b2(layout, aggregation, expected):
    """2 tokens with loss 1 each and 8 with loss 0: 2/10 by token, (1 + 0)/2 by sequence, in one micro-batch or two.

    Shares of two ranks are added just the same (the caller undoes the averaging), so this covers two ranks too.
    """
    sequences = [[-1.0] * 2, [0.0] * 8]  # advantages; on-policy, so the loss is -A
    step = StepTotals(tokens=10, sequences=2)
    theta = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    loss = 0.0
    for rows in layout:
        advantages = torch.tensor([a for row in rows for a in sequences[row]])
        ends = np.cumsum([0] + [len(sequences[row]) for row in rows])
        found = LossStreams(
            theta * torch.ones(len(advantages)),
            torch.zeros(len(advantages)),
            advantages,
            torch.ones(len(advantages), dtype=torch.bool),
            torch.from_numpy(ends),
        )
        share = policy_loss(found, step, PolicyObjective(aggregation=Aggregation(aggregation))).loss
        share.backward()
        loss += share.item()
    assert loss == pytest.approx(expected, abs=1e-6)
    assert theta.grad.item() == pytest.approx(expected, abs=1e-6)  # d(-ratio * A)/d theta = -A

"""From the rewards of a rollout batch to token advantages."""

import math

import numpy as np
import pytest

from openrlhf.config.algo import AdvantageConfig, KlConfig
from openrlhf.rl.advantages.compute import compute_advantages
from openrlhf.rl.advantages.registry import ESTIMATORS
from openrlhf.rl.packing import collate
from tests.unit.rl import reference, samples

NO_KL = KlConfig(init_coef=0.0)


def compute(experience, name, kl=NO_KL, kl_coef=0.0, **settings):
    return compute_advantages(experience, AdvantageConfig(estimator=name, **settings), kl, kl_coef)


def test_reinforce_baseline_by_hand():
    # Group 0: rewards 1, 0 -> 0.5, -0.5. Group 1: 0.3, 0.3 -> 0, 0. Loss tokens per row: 2, 1, 1, 0.
    # Tokens 0.5 0.5 -0.5 0: mean 0.125, biased variance (2*0.140625 + 0.390625 + 0.015625)/4 = 0.171875,
    # std 0.414578: 0.904534, 0.904534, -1.507557, -0.301511.
    batch = samples.experience([[0, 1, 1], [0, 1, 0], [0, 0, 1], [0, 0, 0]], [1, 0, 0.3, 0.3], [0, 0, 1, 1])
    found = compute(batch, "reinforce_baseline")
    expected = [[0, 0.904534, 0.904534], [0, -1.507557, 0], [0, 0, -0.301511], [0, 0, 0]]
    np.testing.assert_allclose(found.advantages, expected, atol=1e-6)
    np.testing.assert_allclose(found.returns, [[0, 0.5, 0.5], [0, -0.5, 0], [0, 0, 0], [0, 0, 0]])
    assert (found.advantages.dtype, found.returns.dtype) == (np.float32, np.float32)
    assert found.metrics == pytest.approx(
        {
            "rollout/advantage_mean": 0.0,
            "rollout/advantage_std": 1.0,
            "rollout/advantage_min": -1.507557,
            "rollout/advantage_max": 0.904534,
            "rollout/return_mean": 0.125,
        },
        abs=1e-6,
    )


@pytest.mark.parametrize("name", [n for n, e in ESTIMATORS.items() if e.grouped])
def test_a_batch_of_constant_groups_is_exactly_zero(name):
    batch = samples.experience([[0, 1, 1]] * 6, [0.1] * 3 + [0.7] * 3, [0] * 3 + [1] * 3)
    assert np.array_equal(compute(batch, name).advantages, np.zeros((6, 3)))


def test_gamma_belongs_to_reinforce_and_is_one_for_grouped_estimators():
    # reinforce without normalisation of the mean would give 0.25, 0.5, 1; the mean 0.583333 is subtracted.
    one = samples.experience([[0, 1, 1, 1]], [1.0])
    found = compute(one, "reinforce", gamma=0.5, no_std_norm=True)
    np.testing.assert_allclose(found.returns, [[0, 0.25, 0.5, 1.0]])
    np.testing.assert_allclose(found.advantages, [[0, -1 / 3, -1 / 12, 5 / 12]], atol=1e-6)
    pair = samples.experience([[0, 1, 1], [0, 1, 1]], [1.0, 0.0], [0, 0])
    settings = AdvantageConfig(estimator="rloo", gamma=0.5)
    np.testing.assert_allclose(compute_advantages(pair, settings, NO_KL, 0.0).advantages, [[0, 1, 1], [0, -1, -1]])
    assert settings.gamma == 0.5  # the flag itself is left alone


def with_logprobs(batch, old, ref):
    batch.old_logprobs = np.array(old, dtype=np.float32)
    batch.ref_logprobs = np.array(ref, dtype=np.float32)
    return batch


def test_kl_in_the_reward_by_hand():
    # Row 0: actions at 1 and 3 (2 is the environment's), k1 = 0.5 and 1, coef 0.1: token rewards -0.05, and 1 - 0.1 at
    # the last action. rloo of rewards 1, 0: 1 and -1. Returns: 0.9, 0.9 - 0.05 = 0.85. Row 1: KL 0.
    batch = with_logprobs(
        samples.experience([[0, 1, 0, 1], [0, 1, 0, 0]], [1.0, 0.0], [0, 0]),
        [[math.nan, -1.0, math.nan, -1.0], [0, -1.0, 0, math.inf]],
        [[0, -1.5, math.nan, -2.0], [0, -1.0, 0, 0]],
    )
    kl = KlConfig(init_coef=0.1)
    found = compute(batch, "rloo", kl, 0.1)
    np.testing.assert_allclose(found.advantages, [[0, 0.85, 0, 0.9], [0, -1, 0, 0]], atol=1e-6)
    assert found.metrics["rollout/kl"] == pytest.approx(0.5)
    for other, coef in ((KlConfig(init_coef=0.1, use_loss=True), 0.1), (kl, 0.0)):
        found = compute(batch, "rloo", other, coef)
        np.testing.assert_allclose(found.advantages, [[0, 1, 0, 1], [0, -1, 0, 0]])
        assert "rollout/kl" not in found.metrics


def test_kl_in_the_reward_needs_both_logprobs():
    batch = samples.experience([[0, 1]], [1.0])
    with pytest.raises(ValueError, match="KL in the reward needs"):
        compute(batch, "reinforce", KlConfig(), 0.1)


def test_a_sample_counts_once_whatever_its_segments():
    # Sample a: two segments, reward 1; sample b: one segment, reward 0. Group mean 0.5, not 2/3.
    two = samples.segment([1, 2, 3], [0, 1, 1])
    long = samples.rollout("g", 0, 1.0, two, samples.segment([1, 2], [0, 1]))
    short = samples.rollout("g", 1, 0.0, samples.segment([1, 2], [0, 1]))
    groups = [samples.RolloutGroup("g", (long, short))]
    found = compute(collate(groups), "dr_grpo")
    np.testing.assert_allclose(found.advantages, [[0, 0.5, 0.5], [0, 0.5, 0], [0, -0.5, 0]])


def test_loss_masked_tokens_have_returns_but_no_say():
    batch = samples.experience([[0, 1, 1], [0, 1, 1]], [1.0, 0.0], [0, 0])
    batch.loss_mask[1] = False
    found = compute(batch, "reinforce_baseline")
    # The statistics see 0.5 twice: centred 0, and row 1 gets nothing.
    assert np.array_equal(found.advantages, np.zeros((2, 3)))
    np.testing.assert_allclose(found.returns, [[0, 0.5, 0.5], [0, -0.5, -0.5]])


def test_nothing_to_train_on():
    batch = samples.experience([[0, 0], [0, 0]], [1.0, 0.0], [0, 0])
    found = compute(batch, "reinforce_baseline")
    assert np.array_equal(found.advantages, np.zeros((2, 2)))
    assert found.metrics == {}


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_a_broken_reward_stops_the_step_and_names_the_row(name, broken):
    batch = samples.experience([[0, 1], [0, 1], [0, 1], [0, 1]], [0, 1, broken, 0], [0, 0, 1, 1])
    batch.values = np.zeros((4, 2), dtype=np.float32)
    with pytest.raises(FloatingPointError, match=r"row\(s\) \[.*2.*\] are not finite"):
        compute(batch, name)


def test_a_broken_logprob_of_an_action_stops_the_step():
    batch = with_logprobs(samples.experience([[0, 1], [0, 1]], [0, 1], [0, 0]), [[0, -1], [0, math.nan]], [[0, 0]] * 2)
    with pytest.raises(FloatingPointError, match=r"row\(s\) \[1\]"):
        compute(batch, "rloo", KlConfig(), 0.1)


@pytest.mark.parametrize("name", [n for n, e in ESTIMATORS.items() if not e.critic])
@pytest.mark.parametrize("seed", range(6))
def test_matches_the_reference(name, seed):
    rng = np.random.default_rng(seed)
    groups = samples.random_groups(rng)
    batch = collate(groups)
    old, ref = -rng.random(batch.sequences.shape), -rng.random(batch.sequences.shape)
    with_logprobs(batch, np.where(batch.action_mask, old, math.nan), np.where(batch.action_mask, ref, math.nan))
    found = compute(batch, name, KlConfig(estimator="k1"), 0.2, gamma=0.9)

    rewards = [float(np.float32(r.outcome.reward)) for g in groups for r in g.rollouts]
    numbers = [i for i, g in enumerate(groups) for _ in g.rollouts]
    sample_scores = reference.estimate(name, rewards, numbers)
    gamma = 1.0 if ESTIMATORS[name].grouped else 0.9
    rows = []
    for row, sample in enumerate(batch.sample_ids):
        actions = np.flatnonzero(batch.action_mask[row])
        token_rewards = [0.0] * batch.sequences.shape[1]
        for t in actions:
            token_rewards[t] -= 0.2 * reference.kl(
                float(batch.old_logprobs[row, t]), float(batch.ref_logprobs[row, t]), "k1"
            )
        if len(actions):
            token_rewards[actions[-1]] += sample_scores[sample]
        rows.append(reference.returns(token_rewards, batch.action_mask[row], gamma))
    np.testing.assert_allclose(found.returns, rows, rtol=1e-6, atol=1e-6)
    expected = np.where(batch.loss_mask, rows, 0.0)
    if ESTIMATORS[name].batch_norm:
        expected = reference.normalise(expected.tolist(), batch.loss_mask.tolist(), False)
    np.testing.assert_allclose(found.advantages, expected, rtol=1e-5, atol=1e-6)

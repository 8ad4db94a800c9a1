"""Laws that hold whatever the numbers are."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from openrlhf.config.algo import AdvantageConfig, KlConfig
from openrlhf.rl.advantages.compute import compute_advantages
from openrlhf.rl.advantages.gae import gae
from openrlhf.rl.advantages.registry import ESTIMATORS
from openrlhf.rl.advantages.returns import discounted_returns
from openrlhf.rl.correction import CORRECTIONS, Correction, importance_weights
from openrlhf.rl.losses.policy_loss import policy_loss
from openrlhf.rl.losses.tokens import LossStreams
from openrlhf.rl.losses.value_loss import ValueStreams, value_loss
from openrlhf.rl.metrics import finalize, merge
from openrlhf.rl.packing import collate
from openrlhf.rl.running_normaliser import RunningNormaliser
from openrlhf.types import StepTotals
from tests.unit.rl import samples
from tests.unit.rl.losses.making import AGGREGATIONS, label, objectives

SEEDS = st.integers(0, 2**32 - 1)
law = settings(max_examples=15, deadline=None, derandomize=True, database=None)
few = settings(law, max_examples=8)  # for laws that are tried on many algorithms
NO_KL = KlConfig(init_coef=0.0)


# --- advantages ---


def batch_of(seed):
    rng = np.random.default_rng(seed)
    groups = samples.random_groups(rng, num_groups=3)
    return rng, groups


def advantages_of(batch, name):
    return compute_advantages(batch, AdvantageConfig(estimator=name, lambd=0.9), NO_KL, 0.0)


def with_values(batch):
    """A value for each token that depends on what the token is and where it stands in its row."""
    batch.values = np.sin(batch.sequences + np.arange(batch.sequences.shape[1]) + batch.rewards[:, None]).astype("f4")
    return batch


def take(batch, rows):
    """The batch with its rows in another order."""
    return replace(batch, **{name: field[rows] for name, field in vars_of(batch).items()})


def vars_of(batch):
    fields = {name: getattr(batch, name) for name in batch.__slots__}
    return {name: field for name, field in fields.items() if field is not None}


@pytest.mark.parametrize("name", ESTIMATORS)
@few
@given(SEEDS)
def test_order_of_samples_and_padding_do_not_matter(name, seed):
    rng, groups = batch_of(seed)
    batch = with_values(collate(groups))
    found = advantages_of(batch, name)
    order = rng.permutation(len(batch))
    wider = {
        key: np.pad(field, ((0, 0), (0, 3)), constant_values=False if field.dtype == bool else 7)
        for key, field in vars_of(batch).items()
        if field.ndim == 2
    }
    other = advantages_of(take(replace(batch, **wider), order), name)
    width = batch.sequences.shape[1]
    np.testing.assert_allclose(other.advantages[:, :width], found.advantages[order], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(other.returns[:, :width], found.returns[order], rtol=1e-5, atol=1e-6)
    assert not other.advantages[:, width:].any()
    assert other.metrics == pytest.approx(found.metrics, rel=1e-6, abs=1e-9)


@law
@given(SEEDS)
def test_gae_without_a_critic_is_reinforce(seed):
    """lambda 1, gamma 1, V 0: the same advantages to the last bit."""
    _, groups = batch_of(seed)
    batch = collate(groups)
    reinforce = compute_advantages(batch, AdvantageConfig(estimator="reinforce"), NO_KL, 0.0)
    batch.values = np.zeros(batch.sequences.shape, dtype=np.float32)
    found = compute_advantages(batch, AdvantageConfig(estimator="gae"), NO_KL, 0.0)
    np.testing.assert_array_equal(found.advantages, reinforce.advantages)
    np.testing.assert_array_equal(found.returns, reinforce.returns)


@law
@given(SEEDS, st.floats(0, 1))
def test_gae_with_lambda_1_is_the_return_minus_the_value(seed, gamma):
    rng = np.random.default_rng(seed)
    rewards, values = map(torch.from_numpy, rng.normal(size=(2, 4, 9)))
    mask = torch.from_numpy(rng.random((4, 9)) < 0.7)
    advantages, returns = gae(rewards, values, mask, gamma, 1.0)
    expected = discounted_returns(rewards, mask, gamma)
    torch.testing.assert_close(returns, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(advantages, torch.where(mask, expected - values, 0.0), rtol=0, atol=1e-12)


@law
@given(SEEDS, st.floats(0, 1), st.floats(0, 1))
def test_gae_does_not_see_the_environment(seed, gamma, lambd):
    """Taking out the tokens that the policy did not sample changes nothing for those it did."""
    rng = np.random.default_rng(seed)
    rewards, values = map(torch.from_numpy, rng.normal(size=(2, 1, 9)))
    mask = torch.from_numpy(rng.random((1, 9)) < 0.6)
    assume(bool(mask.any()))
    whole = torch.stack(gae(rewards, values, mask, gamma, lambd))[:, mask]
    dense = gae(rewards[mask][None], values[mask][None], torch.ones(1, int(mask.sum()), dtype=torch.bool), gamma, lambd)
    assert torch.equal(whole, torch.cat(dense))


@law
@given(
    st.lists(st.integers(-8, 8), min_size=2, max_size=8),
    st.floats(0.01, 100),
    st.floats(-100, 100),
)
def test_group_norm_ignores_the_scale_of_rewards(rewards, scale, shift):
    assume(max(rewards) > min(rewards))
    score, groups = ESTIMATORS["group_norm"].score, torch.zeros(len(rewards), dtype=torch.long)
    plain = score(torch.tensor(rewards, dtype=torch.float64), groups)
    moved = score(torch.tensor(rewards, dtype=torch.float64) * scale + shift, groups)
    torch.testing.assert_close(moved, plain, rtol=1e-6, atol=1e-6)


@law
@given(SEEDS, st.floats(-100, 100))
def test_every_group_baseline_ignores_a_shift_and_sums_to_zero(seed, shift):
    rng = np.random.default_rng(seed)
    rewards, groups = torch.from_numpy(rng.normal(size=12)), torch.from_numpy(rng.integers(0, 4, size=12))
    for estimator in ESTIMATORS.values():
        if estimator.grouped:
            found = estimator.score(rewards, groups)
            torch.testing.assert_close(estimator.score(rewards + shift, groups), found, rtol=0, atol=1e-9)
            sums = torch.zeros(4, dtype=torch.float64).index_add(0, groups, found)
            torch.testing.assert_close(sums, torch.zeros_like(sums), rtol=0, atol=1e-9)


# --- losses ---

LENGTHS = st.lists(st.integers(1, 5), min_size=1, max_size=6)
OBJECTIVES = [
    *objectives(clip_low=0.1, clip_high=0.2, entropy_coef=0.1, kl_estimator="k2", kl_in_loss=True),
    *objectives(correction=Correction("seq-mask-tis", 0.7, 1.5)),
]


def step_of(lengths, seed):
    """One stream per row of a step, and the step's denominators."""
    rng = np.random.default_rng(seed)
    rows = []
    for length in lengths:
        new, old, rollout, ref = -1 - rng.random((4, length)) / 2
        mask = rng.random(length) < 0.7
        numbers = (new, rollout, rng.normal(size=length), mask, old, ref, rng.random(length))
        rows.append([torch.from_numpy(number) for number in numbers])
    tokens = [int(row[3].sum()) for row in rows]
    return rng, rows, StepTotals(float(sum(tokens)), float(sum(n > 0 for n in tokens)))


def pack(rows, padding=0):
    """Rows end to end; `padding` broken tokens that the mask leaves out are put after each."""
    filled = []
    for row in rows:
        junk = torch.full((padding,), torch.nan, dtype=torch.float64)
        filled.append([torch.cat([s, junk.bool() & False if s.dtype == torch.bool else junk]) for s in row])
    streams = [torch.cat(parts) for parts in zip(*filled, strict=True)]
    ends = np.cumsum([0, *(len(row[0]) for row in filled)])
    new, rollout, advantages, mask, old, ref, entropy = streams
    leaf = new.clone().requires_grad_()
    return leaf, LossStreams(leaf, rollout, advantages, mask, torch.from_numpy(ends), old, ref, entropy)


def run_step(rows, totals, objective, cuts, padding=0):
    """Loss, gradient by the logprobs of each row, and metrics of a step cut into micro-batches of the given rows."""
    loss, gradient, metrics = 0.0, {}, []
    for members in cuts:
        leaf, streams = pack([rows[i] for i in members], padding)
        share = policy_loss(streams, totals, objective, kl_coef=0.3)
        share.loss.backward()
        loss += share.loss.item()
        metrics.append(share.metrics)
        for row, start, end in zip(members, streams.cu_seqlens[:-1], streams.cu_seqlens[1:], strict=True):
            gradient[row] = leaf.grad[start : end - padding]
    return loss, torch.cat([gradient[row] for row in range(len(rows))]), finalize(merge(metrics))


@pytest.mark.parametrize("objective", OBJECTIVES, ids=label)
@few
@given(LENGTHS, SEEDS)
def test_order_cut_and_padding_of_a_step_do_not_matter(objective, lengths, seed):
    rng, rows, totals = step_of(lengths, seed)
    whole = run_step(rows, totals, objective, [list(range(len(rows)))])
    order = rng.permutation(len(rows)).tolist()
    cut = int(rng.integers(0, len(rows) + 1))
    cuts = [part for part in (order[:cut], order[cut:]) if part]
    other = run_step(rows, totals, objective, cuts, padding=2)
    assert other[0] == pytest.approx(whole[0], rel=1e-10, abs=1e-12)
    torch.testing.assert_close(other[1], whole[1], rtol=1e-10, atol=1e-12)
    assert other[2] == pytest.approx(whole[2], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("objective", list(objectives()), ids=label)
@few
@given(LENGTHS, SEEDS)
def test_the_step_s_own_logprobs_serve_as_the_old_ones(objective, lengths, seed):
    """Skipping the pass that computes old logprobs changes nothing where they would be the same, to the last bit."""
    _, rows, totals = step_of(lengths, seed)
    results = []
    for given_old in (True, False):
        leaf, streams = pack(rows)
        share = policy_loss(replace(streams, old_logprobs=leaf.detach() if given_old else None), totals, objective)
        share.loss.backward()
        results.append((share.loss.item(), leaf.grad, share.metrics))
    assert results[0][0] == results[1][0]
    assert torch.equal(results[0][1], results[1][1])
    assert results[0][2] == results[1][2]


@pytest.mark.parametrize("aggregation", AGGREGATIONS, ids=lambda a: a.mode)
@few
@given(LENGTHS, SEEDS)
def test_order_and_cut_do_not_matter_to_the_critic(aggregation, lengths, seed):
    rng, rows, totals = step_of(lengths, seed)

    def run(cuts):
        loss, metrics = 0.0, []
        for members in cuts:
            leaf, s = pack([rows[i] for i in members])
            share = value_loss(
                ValueStreams(leaf, s.old_logprobs, s.advantages, s.loss_mask, s.cu_seqlens), totals, 0.1, aggregation
            )
            loss += share.loss.item()
            metrics.append(share.metrics)
        return loss, finalize(merge(metrics))

    whole, order = run([range(len(rows))]), rng.permutation(len(rows)).tolist()
    apart = run([[row] for row in order])
    assert apart[0] == pytest.approx(whole[0], rel=1e-10, abs=1e-12)
    assert apart[1] == pytest.approx(whole[1], rel=1e-10, abs=1e-12)


@law
@given(LENGTHS, SEEDS)
def test_corrections_agree_inside_the_thresholds(lengths, seed):
    """Where every weight is inside, icepop, tis and seq-mask-tis are the plain weight; seq-tis is their product."""
    rng = np.random.default_rng(seed)
    sequence = torch.from_numpy(np.repeat(np.arange(len(lengths)), lengths))
    old = torch.from_numpy(rng.uniform(-0.1, 0.1, size=len(sequence)))
    low, high = np.exp(-0.6), np.exp(0.6)  # five tokens of 0.1 stay inside as well
    found = {
        kind: importance_weights(
            old, torch.zeros_like(old), sequence, len(lengths), Correction(kind, float(low), float(high))
        )
        for kind in CORRECTIONS
    }
    for kind in ("tis", "icepop", "seq-mask-tis"):
        assert torch.equal(found[kind].weight, old.exp())
    product = torch.zeros(len(lengths), dtype=torch.float64).index_add(0, sequence, old).exp()[sequence]
    torch.testing.assert_close(found["seq-tis"].weight, product)
    assert not any(weights.clamped.any() or weights.masked.any() for weights in found.values())


# --- rewards ---


@law
@given(st.lists(st.floats(-100, 100), min_size=1, max_size=20), SEEDS)
def test_running_statistics_do_not_depend_on_the_batches(rewards, seed):
    rng = np.random.default_rng(seed)
    running = RunningNormaliser()
    for batch in np.split(np.array(rewards), np.sort(rng.integers(0, len(rewards) + 1, size=3))):
        running.update(batch)
    assert running.count == len(rewards)
    assert running.mean == pytest.approx(np.mean(rewards), rel=1e-9, abs=1e-9)
    assert running.std == pytest.approx(np.std(rewards), rel=1e-6, abs=1e-6)

"""Collating rollouts, packing rows and bringing results back."""

import numpy as np
import pytest

from openrlhf.rl.packing import collate, filler, pack, plan_micro_batches, step_totals, unpack_into
from openrlhf.types import RolloutGroup, StepTotals
from tests.unit.rl.samples import group, random_groups, rollout, segment

TOTALS = StepTotals(5, 2)


def test_case_a1_masks_come_from_lengths():
    """eos = pad = 2, and the padding of our own (0) is a real token too: nothing may be masked by its id."""
    first = segment([1, 5, 2, 6, 7, 2], [0, 0, 0, 1, 1, 1])
    second = segment([1, 5, 2, 6, 2], [0, 0, 0, 1, 1])
    third = segment([0, 0, 0], [0, 1, 1])
    batch = collate([group("a", [1.0, 0.0, 0.5], first, second, third)])
    assert batch.attention_mask[1].tolist() == [1, 1, 1, 1, 1, 0]
    assert batch.action_mask[1].tolist() == [0, 0, 0, 1, 1, 0]
    assert batch.loss_mask[1].tolist() == [0, 0, 0, 1, 1, 0]
    assert batch.action_mask.sum(axis=1).tolist() == [3, 2, 2]
    assert batch.attention_mask[2].tolist() == [1, 1, 1, 0, 0, 0]
    assert pack(batch, [1], TOTALS).token_ids.tolist() == [1, 5, 2, 6, 2]


def test_collate_rows_are_segments_in_order():
    one, two = segment([1, 2], [0, 1]), segment([3, 4, 5], [0, 1, 0], logprobs=[0, -2, 0])
    groups = [
        RolloutGroup("a", (rollout("a", 0, 1.0, one, two, truncated=True), rollout("a", 1, 0.5, one))),
        group("b", [2.0], one),
    ]
    batch = collate(groups)
    assert batch.sequences.tolist() == [[1, 2, 0], [3, 4, 5], [1, 2, 0], [1, 2, 0]]
    assert batch.rollout_logprobs[1].tolist() == [0, -2, 0]
    assert batch.policy_versions.tolist() == [[-1, 0, -1], [-1, 0, -1], [-1, 0, -1], [-1, 0, -1]]
    assert batch.rewards.tolist() == [1, 1, 0.5, 2]
    assert batch.group_ids.tolist() == [0, 0, 0, 1]
    assert batch.sample_ids.tolist() == [0, 0, 1, 2]
    assert batch.truncated.tolist() == [1, 1, 0, 0]


def test_collate_refuses_what_has_no_reward():
    with pytest.raises(ValueError, match="a/1 is ungraded"):
        collate([group("a", [1.0, None])])
    with pytest.raises(ValueError, match="no samples"):
        collate([])


def small_batch():
    return collate([group("a", [1.0, 0.0], segment([1, 2, 3], [0, 1, 1], [0, 1, 0]), segment([4, 5], [0, 1], [0, 0]))])


def test_step_totals_count_loss_tokens_and_sequences_that_have_one():
    batch = small_batch()
    assert step_totals(batch, [0, 1]) == StepTotals(tokens=1.0, sequences=1.0)
    assert step_totals(batch, [1]) == StepTotals(tokens=0.0, sequences=0.0)


def test_pack_by_hand():
    batch = small_batch()
    batch.advantages = np.array([[0, 1, 2], [0, 3, 99]], dtype=np.float32)
    packed = pack(batch, [1, 0], TOTALS)
    assert packed.token_ids.tolist() == [4, 5, 1, 2, 3]
    assert packed.position_ids.tolist() == [0, 1, 0, 1, 2]
    assert packed.cu_seqlens.tolist() == [0, 2, 5]
    assert packed.action_mask.tolist() == [0, 1, 0, 1, 1]
    assert packed.loss_mask.tolist() == [0, 0, 0, 1, 0]
    assert packed.advantages.tolist() == [0, 3, 0, 1, 2]
    assert packed.rows.tolist() == [1, 0]
    assert packed.totals is TOTALS
    assert packed.old_logprobs is None


def test_no_rows_make_a_filler():
    packed = pack(small_batch(), [], TOTALS)
    assert packed.rows.tolist() == [-1]
    assert len(packed.token_ids) == 2
    assert not packed.loss_mask.any()
    assert not packed.action_mask.any()
    for stream in (packed.old_logprobs, packed.ref_logprobs, packed.advantages, packed.returns, packed.values):
        assert stream.tolist() == [0.0, 0.0]


def test_unpack_skips_fillers_and_leaves_padding_alone():
    batch = small_batch()
    batches = [pack(batch, [1], TOTALS), filler(TOTALS), pack(batch, [0], TOTALS)]
    out = np.full((2, 3), -9.0)
    unpack_into([np.array([1.0, 2.0]), np.array([7.0, 7.0]), np.array([3.0, 4.0, 5.0])], batches, out)
    assert out.tolist() == [[3, 4, 5], [1, 2, -9]]


def test_unpack_refuses_results_of_another_length():
    with pytest.raises(ValueError, match="3 values for a micro-batch of 2 tokens"):
        unpack_into([np.zeros(3)], [pack(small_batch(), [1], TOTALS)], np.zeros((2, 3)))


@pytest.mark.parametrize("seed", range(10))
def test_pack_and_unpack_bring_every_value_home(seed):
    batch = collate(random_groups(np.random.default_rng(seed)))
    lengths = batch.attention_mask.sum(axis=1).tolist()
    plan = plan_micro_batches(lengths, world_size=3, max_tokens=20)
    batches = [pack(batch, rows, TOTALS) for rank in plan for rows in rank]
    out = np.zeros_like(batch.rollout_logprobs)
    unpack_into([packed.rollout_logprobs for packed in batches], batches, out)
    assert np.array_equal(out, batch.rollout_logprobs)

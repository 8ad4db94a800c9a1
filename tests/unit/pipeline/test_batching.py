"""From an experience to optimiser batches and to every rank's micro-batches, and the answers back."""

from itertools import chain

import numpy as np
import pytest

from openrlhf.config.rollout import RolloutConfig
from openrlhf.config.train import DsConfig, TrainConfig
from openrlhf.pipeline.batching import MicroBatchLimit, dispatch, optimiser_batches
from tests.batches import random_experience


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def rows_of(batches) -> list[int]:
    return [row for own in batches for batch in own for row in batch.rows.tolist()]


@pytest.mark.parametrize("world_size", [1, 2, 3])
@pytest.mark.parametrize("limit", [MicroBatchLimit(2, None), MicroBatchLimit(None, 20)])
def test_answers_come_back_to_the_tokens_that_were_asked(world_size, limit):
    experience = random_experience([7, 12, 5, 9, 11])
    sent = dispatch(experience, range(5), world_size, limit)
    assert len(sent.batches) == world_size
    assert len({len(own) for own in sent.batches}) == 1
    assert sorted(row for row in rows_of(sent.batches) if row >= 0) == [0, 1, 2, 3, 4]
    # Every worker answers 10 * token id: the padded answer must be 10 * sequences, and 0 where there is no token.
    answers = [[10.0 * batch.token_ids for batch in own] for own in sent.batches]
    collected = sent.collect(answers, experience)
    assert collected.dtype == np.float32
    np.testing.assert_array_equal(collected, 10 * np.where(experience.attention_mask, experience.sequences, 0))


def test_some_rows_only_with_the_totals_of_those_rows():
    experience = random_experience([7, 12, 5, 9])
    sent = dispatch(experience, [1, 3], 2, MicroBatchLimit(1, None))
    assert sorted(rows_of(sent.batches)) == [1, 3]
    tokens = {batch.totals.tokens for own in sent.batches for batch in own}
    # 12 - 3 prompt tokens - 1 environment token = 8 and 9 - 4 = 5 loss tokens, on every micro-batch of both ranks.
    assert tokens == {13.0}
    assert {batch.totals.sequences for own in sent.batches for batch in own} == {2.0}


def test_a_rank_without_rows_gets_a_filler_that_weighs_nothing():
    experience = random_experience([6])
    sent = dispatch(experience, [0], 3, MicroBatchLimit(4, None))
    fillers = [batch for own in sent.batches for batch in own if batch.rows.tolist() == [-1]]
    assert len(fillers) == 2
    assert not any(batch.loss_mask.any() or batch.action_mask.any() for batch in fillers)
    collected = sent.collect([[np.ones(len(b.token_ids), np.float32) for b in own] for own in sent.batches], experience)
    np.testing.assert_array_equal(collected, np.ones((1, 6)))


@pytest.mark.parametrize("tokens", [None, 16])
@pytest.mark.parametrize(("count", "idle"), [(5, 0), (8, 0), (4, 0), (3, 1)])
def test_case_d2_every_sample_once_and_the_same_number_of_rounds_on_every_rank(count, idle, tokens):
    """4 ranks. With 3 samples one rank is idle: it takes part with a filler, so no collective hangs."""
    experience = random_experience([13, 11, 9, 7, 5, 8, 10, 6][:count])
    limit = MicroBatchLimit(1, None) if tokens is None else MicroBatchLimit(None, tokens)
    batches = dispatch(experience, range(count), 4, limit).batches
    assert sorted(row for row in rows_of(batches) if row >= 0) == list(range(count))
    assert len({len(own) for own in batches}) == 1
    assert sum(all(batch.rows.tolist() == [-1] for batch in own) for own in batches) == idle
    if count in (4, 8):
        assert {sum(row >= 0 for batch in own for row in batch.rows) for own in batches} == {count // 4}
    if tokens is not None:
        assert all(len(batch.token_ids) <= tokens for own in batches for batch in own)


def test_one_optimiser_step_takes_all_rows_in_order():
    assert optimiser_batches(random_experience([5] * 6), 6, generator()) == [[0, 1, 2, 3, 4, 5]]
    assert optimiser_batches(random_experience([5] * 6), 100, generator()) == [[0, 1, 2, 3, 4, 5]]


def test_several_steps_are_shuffled_and_the_last_may_be_short():
    experience = random_experience([5] * 11)
    batches = optimiser_batches(experience, 4, generator())
    assert [len(batch) for batch in batches] == [4, 4, 3]
    assert sorted(chain(*batches)) == list(range(11))
    assert list(chain(*batches)) != list(range(11))
    assert batches == optimiser_batches(experience, 4, generator())
    assert batches != optimiser_batches(experience, 4, generator(1))


@pytest.mark.parametrize("seed", range(5))
def test_the_segments_of_a_sample_stay_in_one_step(seed):
    experience = random_experience([5] * 7)
    experience.sample_ids = np.array([0, 0, 1, 2, 3, 3, 4])  # 5 samples, two of them of two segments
    batches = optimiser_batches(experience, 2, generator(seed))
    assert sorted(chain(*batches)) == list(range(7))
    samples = [set(experience.sample_ids[batch].tolist()) for batch in batches]
    assert [len(step) for step in samples] == [2, 2, 1]  # samples are counted, not rows
    assert sorted(sample for step in samples for sample in step) == [0, 1, 2, 3, 4]


def test_rows_that_are_left_out_and_steps_without_a_loss_token():
    experience = random_experience([5] * 6)
    experience.loss_mask[2:4] = False
    left_out = np.array([True, False, False, False, False, True])
    assert sorted(optimiser_batches(experience, 9, generator(), left_out)[0]) == [1, 2, 3, 4]
    assert sorted(map(tuple, optimiser_batches(experience, 1, generator(), left_out))) == [(1,), (4,)]


def micro_batches_of(group_ids, world_size, limit):
    experience = random_experience([6] * len(group_ids))
    experience.group_ids = np.array(group_ids)
    sent = dispatch(experience, range(len(group_ids)), world_size, limit)
    return [[sorted(batch.rows.tolist()) for batch in own] for own in sent.batches]


def test_samples_of_a_prompt_stay_in_one_micro_batch():
    (own,) = micro_batches_of([0, 1, 0, 1, 2, 2], 1, MicroBatchLimit(2, None, together=True))
    assert sorted(own) == [[0, 2], [1, 3], [4, 5]]
    (own,) = micro_batches_of([0, 1, 0, 1, 2, 2], 1, MicroBatchLimit(None, 24, together=True))  # 2 groups of 12 tokens
    assert sorted(map(len, own)) == [2, 4]


def test_rows_are_dealt_singly_where_groups_do_not_fit_or_would_leave_ranks_waiting():
    (own,) = micro_batches_of([0, 0, 0, 1], 1, MicroBatchLimit(2, None, together=True))
    assert max(map(len, own)) == 2  # a group of three is over the limit of two sequences
    (own,) = micro_batches_of([0, 0, 0, 1], 1, MicroBatchLimit(None, 17, together=True))  # its 18 tokens over 17
    assert max(map(len, own)) == 2
    first, second = micro_batches_of([0, 0, 0, 1], 2, MicroBatchLimit(4, None, together=True))
    assert [len(first[0]), len(second[0])] == [2, 2]  # two groups for two ranks: 3 and 1 rows would be uneven
    eight = micro_batches_of([g for g in range(8) for _ in range(2)], 2, MicroBatchLimit(4, None, together=True))
    assert all(batch[0] + 1 == batch[1] for own in eight for batch in [own[0][:2], own[1][:2]])  # pairs stay pairs


def test_limits_follow_the_flags():
    rollout = RolloutConfig(micro_batch_size=3, max_tokens_per_gpu=None)
    plain = TrainConfig(micro_batch_size=5, max_tokens_per_gpu=100)
    dynamic = plain.model_copy(update={"dynamic_batch_enable": True})
    wider = rollout.model_copy(update={"max_tokens_per_gpu": 300})
    alone, shared = DsConfig(share_prompts=False), DsConfig()
    assert MicroBatchLimit.for_training(plain, alone) == MicroBatchLimit(5, None)
    assert MicroBatchLimit.for_scoring(rollout, plain, alone) == MicroBatchLimit(3, None)
    assert MicroBatchLimit.for_training(dynamic, shared) == MicroBatchLimit(None, 100, together=True)
    assert MicroBatchLimit.for_scoring(rollout, dynamic, shared) == MicroBatchLimit(None, 100, together=True)
    assert MicroBatchLimit.for_scoring(wider, dynamic, shared) == MicroBatchLimit(None, 300, together=True)
    assert not MicroBatchLimit.for_training(plain, DsConfig(packing_samples=False)).together

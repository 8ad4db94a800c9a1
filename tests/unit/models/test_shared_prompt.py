"""Samples of one prompt share its tokens, and nothing else."""

import numpy as np

from openrlhf.models.shared_prompt import share_prompts
from tests.batches import micro_batches, random_experience


def shared(lengths, prompts):
    (batch,) = micro_batches(random_experience(lengths, prompts=prompts), [list(range(len(lengths)))])
    return batch, share_prompts(batch)


def test_the_row_by_hand():
    # Row 0 is P P P a a, row 1 is P P P b b b, of the same 3-token prompt.
    batch, row = shared((5, 6), (0, 0))
    ids = batch.token_ids
    assert row.token_ids.tolist() == [*ids[:3], *ids[3:5], *ids[8:11]]
    assert batch.position_ids[row.order].tolist() == [0, 1, 2, 3, 4, 3, 4, 5]
    assert row.source.tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 5, 6, 7]
    seen = [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3], [0, 1, 2, 3, 4]]  # the prompt and the first sample: causal
    seen += [[0, 1, 2, 5], [0, 1, 2, 5, 6], [0, 1, 2, 5, 6, 7]]  # the second sees the prompt and itself
    assert [np.flatnonzero(line).tolist() for line in row.attention_mask] == seen


def test_prompts_stay_apart():
    _, row = shared((5, 5, 5), (0, 1, 0))
    assert len(row.token_ids) == 3 + 2 + 2 + 3 + 2  # P a b | Q c, in the order of the prompts
    families = [0] * 7 + [1] * 5
    crossing = [(i, j) for i in range(12) for j in range(12) if families[i] != families[j] and row.attention_mask[i, j]]
    assert crossing == []


def test_nothing_to_share_means_no_row():
    assert shared((5, 6), (0, 1))[1] is None
    assert shared((40, 40), (0, 0))[1] is None  # 77 of 80 tokens would remain


def test_every_token_finds_itself_in_the_row():
    batch, row = shared((7, 5, 9, 6), (0, 1, 0, 1))
    assert (row.token_ids[row.source] == batch.token_ids).all()
    assert (batch.position_ids[row.order][row.source] == batch.position_ids).all()

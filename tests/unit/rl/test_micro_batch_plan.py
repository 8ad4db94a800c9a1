"""Micro-batch plans: every row once, the same number of micro-batches on every rank (case d2)."""

import random

import pytest

from openrlhf.rl.packing import plan_micro_batches


def flat(plan):
    return sorted(row for rank in plan for micro_batch in rank for row in micro_batch)


def test_case_d2_five_rows_on_four_ranks():
    plan = plan_micro_batches([9, 7, 5, 3, 1], world_size=4, micro_batch_size=1)
    # The two short rows share a rank; the others train on a filler in the second round.
    assert plan == [[[0], []], [[1], []], [[2], []], [[3], [4]]]


def test_case_d2_dynamic_five_rows_on_four_ranks():
    plan = plan_micro_batches([9, 7, 5, 3, 1], world_size=4, max_tokens=16)
    assert plan == [[[0]], [[1]], [[2]], [[3, 4]]]


@pytest.mark.parametrize("settings", [{"micro_batch_size": 1}, {"max_tokens": 9}])
@pytest.mark.parametrize(("rows", "per_rank"), [(8, [2, 2, 2, 2]), (4, [1, 1, 1, 1]), (3, [1, 1, 1, 0])])
def test_case_d2_other_sizes(rows, per_rank, settings):
    plan = plan_micro_batches([5] * rows, world_size=4, **settings)
    assert flat(plan) == list(range(rows))
    assert [sum(map(len, rank)) for rank in plan] == per_rank
    assert len({len(rank) for rank in plan}) == 1


def test_micro_batch_size_is_the_most_rows():
    plan = plan_micro_batches([4, 3, 2, 1], world_size=1, micro_batch_size=2)
    assert plan == [[[0, 3], [1, 2]]]  # both of 5 tokens


def test_token_budget_by_hand():
    # 6 + 4 and 5 + 3 + 2: two micro-batches of 10 tokens.
    assert plan_micro_batches([6, 5, 4, 3, 2], 1, max_tokens=10) == [[[0, 2], [1, 3, 4]]]
    # A row over the budget stands alone, and its budget is not shared.
    assert plan_micro_batches([12, 3, 3], 1, max_tokens=10) == [[[0], [1, 2]]]


def test_even_spread_that_breaks_the_budget_gives_way():
    # Spreading 5 4 3 3 3 over 2 would put 5 + 3 = 8 and 4 + 3 + 3 = 10 over a budget of 9; first fit: 5 + 4, 3 + 3 + 3.
    assert plan_micro_batches([5, 4, 3, 3, 3], 1, max_tokens=9) == [[[0, 1], [2, 3, 4]]]


def test_wrong_calls():
    with pytest.raises(ValueError, match="0 rows for 2 ranks"):
        plan_micro_batches([], 2, micro_batch_size=1)
    with pytest.raises(ValueError, match="give micro_batch_size"):
        plan_micro_batches([1], 2)


def test_properties():
    for seed in range(200):
        check_properties(random.Random(seed))


def check_properties(rng):
    lengths = [rng.randint(1, 40) for _ in range(rng.randint(1, 40))]
    world = rng.choice([1, 2, 3, 4, 7])
    size = rng.choice([None, 1, 2, 5])
    budget = rng.choice([30, 64, 200]) if size is None or rng.random() < 0.5 else None
    plan = plan_micro_batches(lengths, world, size, budget)
    assert flat(plan) == list(range(len(lengths)))
    assert len(plan) == world
    assert len({len(rank) for rank in plan}) == 1
    assert len(plan[0]) > 0
    if len(lengths) >= world:
        assert all(any(rank) for rank in plan)
    for rank in plan:
        tokens = [sum(lengths[row] for row in rows) for rows in rank]
        assert tokens == sorted(tokens, reverse=True)
        for rows, total in zip(rank, tokens, strict=True):
            assert size is None or len(rows) <= size
            assert budget is None or total <= budget or len(rows) == 1
    loads = [sum(lengths[row] for rows in rank for row in rows) for rank in plan]
    if budget is not None:
        assert max(loads) - min(loads) <= max(lengths)
    assert plan == plan_micro_batches(lengths, world, size, budget)

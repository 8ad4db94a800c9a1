import pytest

from openrlhf.rollout.balance import least_loaded


def test_the_smallest_load_wins_and_the_first_of_equals():
    assert least_loaded([3, 1, 2]) == 1
    assert least_loaded([2, 1, 1]) == 1
    assert least_loaded([0.0]) == 0


def test_loads_that_only_grow_deal_in_turn():
    loads = [0, 0, 0]
    order = []
    for _ in range(6):
        order.append(least_loaded(loads))
        loads[order[-1]] += 4
    assert order == [0, 1, 2, 0, 1, 2]


def test_no_engine_is_an_error():
    with pytest.raises(ValueError, match="no engine"):
        least_loaded([])

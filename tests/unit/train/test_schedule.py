"""Learning-rate schedules, against values worked out by hand."""

import pytest

from openrlhf.train.schedule import SCHEDULES, LearningRate


def rates(name: str, total: int = 10, warmup: float = 0.2, low: float = 0.1) -> list[float]:
    schedule = LearningRate(name, 1.0, total, warmup, low)
    return [schedule.at(step) for step in range(total)]


@pytest.mark.parametrize("name", SCHEDULES)
def test_every_step_of_the_run_moves_the_weights(name: str) -> None:
    assert min(rates(name)) > 0
    assert max(rates(name)) == 1.0


def test_warm_up_rises_from_a_positive_rate() -> None:
    # 0.2 * 10 = 2 warm-up steps: 1/2, 2/2.
    assert rates("constant_with_warmup") == [0.5, 1.0] + [1.0] * 8


def test_constant_ignores_the_warm_up() -> None:
    assert rates("constant") == [1.0] * 10


def test_linear() -> None:
    # After the warm-up, step t has 1 - (t - 2) / 8.
    assert rates("linear")[2:] == pytest.approx([1, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125])


def test_cosine() -> None:
    # Half way, at step 6, cos(pi / 2) = 0; a quarter, at step 4, (1 + sqrt(1/2)) / 2.
    found = rates("cosine")
    assert (found[2], found[4], found[6]) == pytest.approx((1.0, 0.8535534, 0.5))


def test_cosine_with_a_floor() -> None:
    # 0.1 + 0.9 * (the cosine above)
    found = rates("cosine_with_min_lr")
    assert (found[2], found[4], found[6]) == pytest.approx((1.0, 0.8681980, 0.55))


def test_after_the_end_the_rate_stays() -> None:
    schedule = LearningRate("cosine_with_min_lr", 2.0, 10, 0.0, 0.1)
    assert schedule.at(10) == schedule.at(1000) == pytest.approx(0.2)


def test_a_run_of_one_step() -> None:
    assert LearningRate("cosine_with_min_lr", 1e-6, 1, 0.03, 0.1).at(0) == 1e-6  # ceil(0.03) = 1 warm-up step, 1/1


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="'polynomial': use one of constant, "):
        LearningRate("polynomial", 1.0, 10)
    with pytest.raises(ValueError, match="0 steps"):
        LearningRate("linear", 1.0, 0)


def test_a_schedule_of_another_length_says_what_becomes_of_the_rate() -> None:
    # Linear without a warm-up, at step 10: 1 - 10 / 40 now, 1 - 10 / 20 then.
    moved = LearningRate("linear", 3e-4, 40).moved(20, 10)
    assert moved is not None
    assert "linear has 40 optimiser steps now, and 20 when it was saved" in moved
    assert "step 11 takes 0.75 of the peak rate instead of 0.5" in moved


@pytest.mark.parametrize(("name", "before"), [("constant", 20), ("linear", 40), ("constant_with_warmup", 20)])
def test_a_rate_that_stays_is_not_worth_a_word(name: str, before: int) -> None:
    assert LearningRate(name, 1.0, 40, 0.1).moved(before, 10) is None

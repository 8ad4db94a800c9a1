"""The loop of the cluster model against times worked out by hand, and the runs that were recorded."""

import math
import random

import pytest

from benchmarks.support.cluster.engine import Speed
from benchmarks.support.cluster.loop import Loop, Setup
from benchmarks.support.cluster.workload import Training, Workload, constant, lognormal, uniform

GENERATE = 10.0  # seconds of a batch on its engine: 10 tokens at 1 s, whatever else runs there


def setup(train: float, queue_size: int, *, load: float = 0.0, engines: int = 2, **changes) -> Setup:
    """A batch is one sample per engine; only one sample is decoded there at a time."""
    workload = Workload(constant(10.0), constant(0.0), groups=engines, samples=1)
    defaults = {"engines": engines, "speed": Speed(1.0, 0.0, slots=1), "training": Training(train, 0.0, load)}
    return Setup(**defaults | {"workload": workload, "queue_size": queue_size} | changes)


def seconds_per_step(case: Setup, steps: int = 12) -> float:
    outcome = Loop(case).run(steps, warm_up=4)
    return case.workload.groups * case.workload.samples / outcome.samples_per_second


@pytest.mark.parametrize("train", [4.0, 25.0])
def test_queue_0_is_one_after_the_other(train):
    outcome = Loop(setup(train, 0, load=2.0)).run(steps=6, warm_up=2)
    assert 2 / outcome.samples_per_second == pytest.approx(GENERATE + train + 2.0)
    assert outcome.staleness_max == 0
    assert outcome.trainer_idle == pytest.approx(GENERATE / (GENERATE + train + 2.0))
    assert outcome.engines_idle == pytest.approx((train + 2.0) / (GENERATE + train + 2.0))


@pytest.mark.parametrize("train", [4.0, 10.0, 25.0])
@pytest.mark.parametrize("queue_size", [1, 2, 4])
def test_the_slower_side_sets_the_pace_where_updates_wait_for_nothing(train, queue_size):
    """With requests kept in flight and a transfer of no time, generation and training overlap wholly."""
    assert seconds_per_step(setup(train, queue_size, keep_in_flight=True)) == pytest.approx(max(GENERATE, train))


def test_a_slow_trainer_trains_on_what_is_as_old_as_the_queue_is_long():
    # Each batch is taken `queue_size` steps after the one whose taking let it begin.
    for queue_size in (1, 2, 4):
        outcome = Loop(setup(25.0, queue_size, keep_in_flight=True)).run(steps=6, warm_up=6)
        assert outcome.staleness_mean == outcome.staleness_max == queue_size
        assert outcome.trainer_idle == 0


def test_an_update_waits_for_the_requests_in_flight():
    # Queue 1, training 4: taken at 0, the next batch begins at 0 and ends at 10; the update asked for at 4 waits for
    # it, loads until 12, and the next step takes it then. So a step has 12 s, of which 4 train.
    case = setup(4.0, 1, load=2.0)
    assert seconds_per_step(case) == pytest.approx(12.0)
    # Pausing instead: the batch is held up for the 2 s of the transfer and no longer, 12 s too; but the trainer waits
    # for groups, not for the update.
    kept = Loop(setup(4.0, 1, load=2.0, keep_in_flight=True)).run(steps=6, warm_up=2)
    assert 2 / kept.samples_per_second == pytest.approx(12.0)
    assert kept.trainer_idle == pytest.approx(6 / 12)


def test_delays_are_hidden_by_groups_in_flight():
    # Little's law: a group is under way for 1 + 19 s. With q batches in flight, q of them are done every 20 s.
    for queue_size in (1, 2, 4):
        workload = Workload(constant(1.0), constant(19.0), groups=1, samples=1)
        case = setup(0.5, queue_size, engines=1, workload=workload, keep_in_flight=True, speed=Speed(1.0, 0.0))
        assert seconds_per_step(case, steps=20) == pytest.approx(20 / queue_size, rel=0.05)


def test_graders_bound_the_throughput():
    # 4 groups of 2 samples in flight, but 3 samples are graded at once, 10 s each: 3 samples every 10 s.
    workload = Workload(constant(1.0), constant(10.0), groups=1, samples=2, graders=3)
    case = setup(0.5, 4, engines=1, workload=workload, keep_in_flight=True, speed=Speed(1.0, 0.0))
    assert Loop(case).run(30, warm_up=6).samples_per_second == pytest.approx(0.3, rel=0.05)


def test_max_staleness_is_kept():
    workload = Workload(lognormal(20, 1.2, 400), uniform(0.0, 20.0), groups=8, samples=4)
    free = setup(30.0, 4, workload=workload, speed=Speed(0.2, 0.05))
    assert Loop(free).run(steps=20, warm_up=6).staleness_max > 3
    bound = Loop(setup(30.0, 4, workload=workload, speed=Speed(0.2, 0.05), max_staleness=3)).run(steps=20, warm_up=6)
    assert bound.staleness_max == 3
    assert bound.stale_groups > 0


def test_a_setup_and_a_seed_fix_the_outcome():
    workload = Workload(lognormal(20, 1.2, 400), uniform(0.0, 20.0), groups=8, samples=4)
    case = setup(5.0, 2, workload=workload)
    assert Loop(case, seed=1).run(8, 2) == Loop(case, seed=1).run(8, 2)
    assert Loop(case, seed=1).run(8, 2) != Loop(case, seed=2).run(8, 2)


def test_the_mean_of_a_lognormal_length():
    draw = lognormal(mean=512.0, sigma=0.3, longest=math.inf)
    generator = random.Random(0)
    lengths = [draw(generator) for _ in range(4000)]
    # The deviation of the mean: 512 * sqrt(exp(0.09) - 1) / sqrt(4000) = 2.5.
    assert sum(lengths) / len(lengths) == pytest.approx(512, abs=4 * 2.5)
    assert lognormal(512.0, 1.2, longest=600.0)(random.Random(0)) <= 600

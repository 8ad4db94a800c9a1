"""Seconds by phase. Time is a list of readings, so that the sums are exact."""

import pytest

from openrlhf.pipeline import clock
from openrlhf.pipeline.clock import PhaseClock


@pytest.fixture
def at(monkeypatch):
    """at(1.0): the time it is from now on."""
    now = [0.0]
    monkeypatch.setattr(clock.time, "perf_counter", lambda: now[0])
    return lambda seconds: now.__setitem__(0, seconds)


def test_phases_add_up_within_a_lap_and_start_again(at):
    watch = PhaseClock()
    for start, end, name in ((1, 3, "train"), (3, 4, "sync"), (6, 7.5, "train")):
        at(start)
        with watch.phase(name):
            at(end)
    at(10)
    # train: 2 + 1.5; the lap runs from 0 to 10.
    assert watch.lap() == {"timing/train": 3.5, "timing/sync": 1.0, "timing/step_total": 10.0}
    at(12)
    assert watch.lap() == {"timing/step_total": 2.0}


def test_a_phase_that_raises_is_counted_too(at):
    watch = PhaseClock()

    def fail():
        with watch.phase("train"):
            at(2)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert watch.lap()["timing/train"] == 2.0


def test_time_aside_belongs_to_no_step(at):
    watch = PhaseClock()
    at(1)
    with watch.aside():
        at(5)
    at(7)
    # 7 seconds less the 4 aside.
    assert watch.lap() == {"timing/step_total": 3.0}

"""Calibration and check of the cluster model, on runs made by the model itself and on those that were recorded."""

import dataclasses
from pathlib import Path

import pytest

from benchmarks.support.cluster.loop import Loop
from benchmarks.support.cluster.measured import WARM_UP, Measured, Run, Step, read, relative_error, write
from benchmarks.support.cluster.study import calibrate, predict
from benchmarks.support.cluster.workload import Training

RECORDED = Path(__file__).resolve().parents[3] / "benchmarks/cluster_study.json"
COUNTED = 30
# One token of one of n requests takes 10 ms + n * 1 ms.
ALONE = Measured("model", 8, 4, (0.5, 2.0), 1000, (8, 16), ((1, 0.011), (8, 0.018), (32, 0.042)), ())


def made_by_the_model(queue_size: int, slowdown: float) -> Run:
    """A run whose steps all have the model's mean: 0.2 s of training for about 384 tokens, 0.1 s of transfer."""
    empty = Run(queue_size, ())
    setup = ALONE.setup(empty, ALONE.speed(slowdown), Training(0.0, 0.2 / 384, 0.1))
    outcome = Loop(setup, seed=3).run(COUNTED, WARM_UP)
    seconds = 32 / outcome.samples_per_second
    step = Step(seconds, seconds - 0.3, 0.1, 32.0, 384.0, outcome.staleness_mean, outcome.staleness_max)
    return Run(queue_size, (step,) * (WARM_UP + COUNTED + queue_size))


def test_a_straight_line_is_found_in_the_decoding_times():
    speed = ALONE.speed(slowdown=2.0)
    assert (speed.base, speed.per_request) == pytest.approx((0.020, 0.002))


def test_a_runs_own_times_leave_out_waiting_and_transfer():
    training = made_by_the_model(1, 4.0).training()
    assert training.load == pytest.approx(0.1)
    assert training.seconds(384.0) == pytest.approx(0.2)


def test_calibration_finds_the_slowdown_and_predicts_another_queue_size(tmp_path):
    measured = dataclasses.replace(ALONE, runs=(made_by_the_model(1, 4.0), made_by_the_model(3, 4.0)))
    write(tmp_path / "measured.json", measured)
    assert read(tmp_path / "measured.json") == measured
    calibration = calibrate(measured, 1)
    assert calibration.slowdown == pytest.approx(4.0, rel=0.2)
    assert abs(relative_error(predict(measured, 3, calibration), measured.run(3))) < 0.05
    # It is a prediction: of engines that are not slowed down it is another one.
    wrong = dataclasses.replace(calibration, slowdown=1.0)
    assert abs(relative_error(predict(measured, 3, wrong), measured.run(3))) > 0.2


def test_the_recorded_runs_are_predicted_within_ten_percent():
    measured = read(RECORDED)
    calibration = calibrate(measured, 1)
    unseen = [run for run in measured.runs if run.queue_size != 1]
    assert unseen
    for run in unseen:
        outcome = predict(measured, run.queue_size, calibration)
        assert abs(relative_error(outcome, run)) <= 0.1, run.queue_size
        assert outcome.staleness_mean == pytest.approx(run.staleness_mean, abs=0.5)

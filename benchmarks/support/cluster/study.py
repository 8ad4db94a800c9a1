"""Calibration on one queue size, the check on others, and what the model says of clusters.

One number is fitted: how many times slower the engines decode beside a trainer than alone, so that the model has the
calibration run's throughput. Everything else is measured.
"""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from .engine import Speed
from .loop import Loop, Outcome, Setup
from .measured import WARM_UP, Measured, Run
from .workload import Training, Workload, constant, lognormal

REPEATS = 5  # seeds of one comparison with a run
FASTEST, SLOWEST = 0.1, 30.0  # bounds of the fitted slowdown


@dataclass(frozen=True, slots=True)
class Calibration:
    """The fitted slowdown, and the trainer's times in the run it was fitted to."""

    queue_size: int
    slowdown: float
    training: Training


def calibrate(measured: Measured, queue_size: int) -> Calibration:
    """Fit by bisection: a slower engine never makes the loop faster."""
    run = measured.run(queue_size)
    training = run.training()
    low, high = FASTEST, SLOWEST
    for _ in range(14):
        middle = (low * high) ** 0.5
        if repeat(measured, run, measured.speed(middle), training).samples_per_second > run.samples_per_second:
            low = middle
        else:
            high = middle
    return Calibration(queue_size, (low * high) ** 0.5, training)


def predict(measured: Measured, queue_size: int, calibration: Calibration) -> Outcome:
    """What a run of this queue size should be like, knowing nothing of it."""
    run = measured.run(queue_size)
    return repeat(measured, run, measured.speed(calibration.slowdown), calibration.training)


def repeat(measured: Measured, run: Run, speed: Speed, training: Training) -> Outcome:
    """The mean over some seeds of the run's steps."""
    setup = measured.setup(run, speed, training)
    outcomes = [Loop(setup, seed).run(len(run.counted), WARM_UP) for seed in range(REPEATS)]
    return Outcome(
        samples_per_second=1 / statistics.fmean(1 / outcome.samples_per_second for outcome in outcomes),
        staleness_mean=statistics.fmean(outcome.staleness_mean for outcome in outcomes),
        staleness_max=max(outcome.staleness_max for outcome in outcomes),
        stale_groups=sum(outcome.stale_groups for outcome in outcomes),
        trainer_idle=statistics.fmean(outcome.trainer_idle for outcome in outcomes),
        engines_idle=statistics.fmean(outcome.engines_idle for outcome in outcomes),
    )


# The clusters that the study looks at. Everything grows with the number of engines.
GROUPS_PER_ENGINE, SAMPLES = 1, 8  # of a rollout batch
MEAN_TOKENS, LONGEST = 512, 8192
TRANSFER = 0.16  # seconds of a weight update to idle engines, as in the recorded runs
TAILS = {"light tail": 0.3, "heavy tail": 1.2}  # sigma of the lognormal response length


@dataclass(frozen=True, slots=True)
class Case:
    """One point of the chart."""

    engines: int
    tail: str
    queue_size: int
    keep_in_flight: bool


def setup_of(case: Case, measured: Measured) -> Setup:
    """A cluster of engines as fast as the measured one.

    The trainer is as fast as the engines are with one batch in flight and no tail: neither side is the bottleneck, so
    all that is lost is lost to waiting.
    """
    speed = measured.speed()
    lengths = lognormal(MEAN_TOKENS, TAILS[case.tail], LONGEST)
    workload = Workload(lengths, constant(0.0), GROUPS_PER_ENGINE * case.engines, SAMPLES)
    training = Training(0.0, speed.step_seconds(SAMPLES) / (SAMPLES * case.engines), TRANSFER)
    return Setup(case.engines, speed, training, workload, case.queue_size, case.keep_in_flight)


def cases(engines: Sequence[int], queue_sizes: Sequence[int]) -> Iterator[Case]:
    """The synchronous loop once, the others with both kinds of weight update."""
    for tail in TAILS:
        for count in engines:
            for size in queue_sizes:
                for keep in (False, True) if size else (False,):
                    yield Case(count, tail, size, keep)


def explore(case: Case, measured: Measured, steps: int) -> Outcome:
    return Loop(setup_of(case, measured)).run(steps, warm_up=case.queue_size + 2)

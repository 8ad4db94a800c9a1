"""What asynchronous training would do on 8 to 1024 engines: a discrete-event model fed with measured times.

    python3 benchmarks/cluster_study.py                      # check the model against the recorded runs; seconds
    python3 benchmarks/cluster_study.py --predict            # and draw docs/images/cluster-study.svg; minutes
    python3 benchmarks/cluster_study.py --measure 1 2 4      # record runs on this machine first; minutes

docs/cluster-study.md says what the model assumes.
"""

import argparse
from pathlib import Path

from support.cluster import measured as records
from support.cluster.loop import Outcome
from support.cluster.study import Case, calibrate, cases, explore, predict
from support.machine import ROOT

MEASURED = ROOT / "benchmarks/cluster_study.json"
CHART = ROOT / "docs/images/cluster-study.svg"
ALLOWED = 0.1  # relative error of the throughput on a queue size that the model has not seen
ENGINES = (8, 16, 32, 64, 128, 256, 512, 1024)
QUEUE_SIZES = (0, 1, 2, 4, 8)


def check(measured: records.Measured, seen: int) -> None:
    """Print predictions beside what was measured."""
    calibration = calibrate(measured, seen)
    print(f"calibrated on queue size {seen}: engines decode {calibration.slowdown:.2f} times slower than alone")
    print("queue   samples/s measured   predicted   error   staleness measured   predicted")
    for run in measured.runs:
        outcome = predict(measured, run.queue_size, calibration)
        error = records.relative_error(outcome, run)
        verdict = "fitted" if run.queue_size == seen else "unseen" if abs(error) <= ALLOWED else "unseen, TOO FAR"
        print(
            f"{run.queue_size:5d}   {run.samples_per_second:18.2f}   {outcome.samples_per_second:9.2f}  {error:+6.1%}"
            f"   {run.staleness_mean:18.2f}   {outcome.staleness_mean:9.2f}   {verdict}"
        )


def predict_clusters(measured: records.Measured, steps: int, largest: int) -> None:
    """Run the model for every point of the chart, print the ends, draw all."""
    from support.cluster.chart import draw

    outcomes: dict[Case, Outcome] = {}
    engines = [count for count in ENGINES if count <= largest]
    for case in cases(engines, QUEUE_SIZES):
        outcomes[case] = explore(case, measured, steps)
        if case.engines in (engines[0], engines[-1]):
            base = outcomes[Case(case.engines, case.tail, 0, False)]
            outcome = outcomes[case]
            print(
                f"{case.tail}, {case.engines:4d} engines, queue {case.queue_size}{' partial' * case.keep_in_flight:8s}"
                f"  {outcome.samples_per_second / case.engines:6.2f} samples/s per engine"
                f"  x{outcome.samples_per_second / base.samples_per_second:.2f}"
                f"  staleness {outcome.staleness_mean:.2f}, at most {outcome.staleness_max}"
                f"  engines idle {outcome.engines_idle:.0%}, trainer {outcome.trainer_idle:.0%}",
                flush=True,
            )
    CHART.parent.mkdir(parents=True, exist_ok=True)
    draw(CHART, outcomes)
    print(CHART)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", type=int, nargs="+", metavar="QUEUE", help="record a run of each queue size")
    parser.add_argument("--steps", type=int, default=12, help="steps of a recorded run with queue size 1")
    parser.add_argument("--file", type=Path, default=MEASURED, help="where the measurements are")
    parser.add_argument("--calibrate_on", type=int, default=1, help="queue size of the run that the model is fitted to")
    parser.add_argument("--predict", action="store_true", help="run the model for clusters and draw the chart")
    parser.add_argument("--predicted_steps", type=int, default=12, help="steps of each predicted run")
    parser.add_argument("--largest", type=int, default=ENGINES[-1], help="number of engines to predict up to")
    arguments = parser.parse_args()
    if arguments.measure:
        from support.cluster.measure import measure

        records.write(arguments.file, measure(arguments.measure, arguments.steps))
    measured = records.read(arguments.file)
    print(f"measured on {measured.machine}")
    check(measured, arguments.calibrate_on)
    if arguments.predict:
        predict_clusters(measured, arguments.predicted_steps, arguments.largest)


if __name__ == "__main__":
    main()

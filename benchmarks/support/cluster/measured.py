"""The measurements that the model is fed with: whole asynchronous runs, and an engine by itself."""

import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from .engine import Speed
from .loop import Outcome, Setup
from .workload import Training, Workload, observed, uniform

WARM_UP = 3  # steps of a run that do not count; nor do its last `queue_size`, in which nothing new is begun


@dataclass(frozen=True, slots=True)
class Step:
    """One row of metrics.jsonl."""

    seconds: float  # timing/step_total
    idle: float  # async/trainer_idle_seconds
    broadcast: float  # timing/broadcast: until the engines are idle, then the transfer
    samples: float
    tokens: float  # sampled
    staleness_mean: float
    staleness_max: float


@dataclass(frozen=True, slots=True)
class Run:
    """A recorded run with one engine."""

    queue_size: int
    steps: tuple[Step, ...]  # all of them

    @property
    def counted(self) -> Sequence[Step]:
        return self.steps[WARM_UP : len(self.steps) - self.queue_size]

    @property
    def samples_per_second(self) -> float:
        return sum(step.samples for step in self.counted) / sum(step.seconds for step in self.counted)

    @property
    def staleness_mean(self) -> float:
        return statistics.fmean(step.staleness_mean for step in self.counted)

    def training(self) -> Training:
        """Seconds per sampled token of everything that is neither waiting nor transferring; the fastest transfer."""
        busy = sum(step.seconds - step.idle - step.broadcast for step in self.counted)
        load = min(step.broadcast for step in self.counted)
        return Training(0.0, busy / sum(step.tokens for step in self.counted), load)


@dataclass(frozen=True, slots=True)
class Measured:
    """Everything in the file."""

    machine: str
    groups: int
    samples: int
    delay: tuple[float, float]  # seconds, uniform
    graders: int  # calls of the reward function at once
    lengths: tuple[int, ...]  # sampled tokens of some samples
    decoding: tuple[tuple[int, float], ...]  # (requests in flight, seconds per token of each), nothing else running
    runs: tuple[Run, ...]

    def run(self, queue_size: int) -> Run:
        for run in self.runs:
            if run.queue_size == queue_size:
                return run
        raise ValueError(f"no run with queue size {queue_size}; there are {[run.queue_size for run in self.runs]}")

    def speed(self, slowdown: float = 1.0) -> Speed:
        """The least-squares line through `decoding`, all of it `slowdown` times slower."""
        counts, seconds = zip(*self.decoding, strict=True)
        slope, base = statistics.linear_regression(counts, seconds)
        return Speed(slowdown * max(0.0, base), slowdown * slope)

    def setup(self, run: Run, speed: Speed, training: Training) -> Setup:
        workload = Workload(observed(self.lengths), uniform(*self.delay), self.groups, self.samples, self.graders)
        return Setup(1, speed, training, workload, run.queue_size)


def read(path: Path) -> Measured:
    data = json.loads(path.read_text(encoding="utf-8"))
    runs = tuple(Run(run["queue_size"], tuple(Step(**step) for step in run["steps"])) for run in data.pop("runs"))
    lists = {name: tuple(data.pop(name)) for name in ("delay", "lengths")}
    decoding = tuple((int(count), float(seconds)) for count, seconds in data.pop("decoding"))
    return Measured(**data, **lists, decoding=decoding, runs=runs)


def write(path: Path, measured: Measured) -> None:
    path.write_text(json.dumps(asdict(measured), indent=1) + "\n", encoding="utf-8")


def step_of(row: dict[str, float]) -> Step:
    """From a row of metrics.jsonl."""
    return Step(
        seconds=row["timing/step_total"],
        idle=row["async/trainer_idle_seconds"],
        broadcast=row["timing/broadcast"],
        samples=row["rollout/num_samples"],
        tokens=row["rollout/tokens_generated"],
        staleness_mean=row["async/staleness_mean"],
        staleness_max=row["async/staleness_max"],
    )


def relative_error(predicted: Outcome, run: Run) -> float:
    """Of the throughput."""
    return predicted.samples_per_second / run.samples_per_second - 1

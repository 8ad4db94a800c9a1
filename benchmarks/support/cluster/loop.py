"""Sampler, engines, buffer and trainer, as pipeline/ppo_async.py and pipeline/sampler.py run them.

    admit groups while queue_size batches are not begun -> engines -> delay -> buffer
    trainer: take the oldest batch -> train -> every engine updates -> (again)

queue_size 0 is the synchronous loop: a batch is admitted when the trainer asks for it.
"""

import random
import sys
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import simpy

from .engine import Engine, Speed
from .graders import Graders
from .workload import Training, Workload


@dataclass(frozen=True, slots=True)
class Setup:
    """A cluster and how it is run."""

    engines: int
    speed: Speed
    training: Training
    workload: Workload
    queue_size: int  # train.async_queue_size; 0: synchronous
    keep_in_flight: bool = False  # train.partial_rollout_enable
    max_staleness: int | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the steps after the warm-up were like."""

    samples_per_second: float
    staleness_mean: float  # over groups: updates between its oldest token and the step that trains on it
    staleness_max: int
    stale_groups: int  # dropped
    trainer_idle: float  # share of the time that it waits, for groups or for requests before an update
    engines_idle: float


@dataclass(slots=True)
class _Group:
    missing: int  # samples without a reward yet
    oldest: int = sys.maxsize  # version that sampled one of its first tokens
    tokens: float = 0.0


@dataclass(slots=True)
class _Books:
    """What happened since the warm-up."""

    since: float = 0.0
    busy_before: float = 0.0
    samples: int = 0
    dropped: int = 0
    working: float = 0.0  # seconds of the trainer, transfers included
    staleness: list[int] = field(default_factory=list)


class Loop:
    """One run of the model. The same setup and seed give the same outcome."""

    def __init__(self, setup: Setup, seed: int = 0) -> None:
        self._setup = setup
        self._random = random.Random(seed)
        self._environment = simpy.Environment()
        self._engines = [Engine(self._environment, setup.speed) for _ in range(setup.engines)]
        self._loads = [0] * setup.engines  # samples without a reward
        self._graders = [Graders(self._environment, setup.workload.graders) for _ in range(setup.engines)]
        self._buffer: deque[_Group] = deque()
        self._in_flight = 0  # groups
        self._version = 0
        self._asked = False  # the trainer waits for a batch
        self._arrived = self._environment.event()
        self._books = _Books()

    def run(self, steps: int, warm_up: int) -> Outcome:
        """`warm_up` steps that do not count, then `steps` that do."""
        self._environment.run(self._environment.process(self._train(steps, warm_up)))
        seconds, books = self._environment.now - self._books.since, self._books
        busy = sum(engine.busy_seconds for engine in self._engines) - books.busy_before
        return Outcome(
            samples_per_second=books.samples / seconds,
            staleness_mean=sum(books.staleness) / len(books.staleness),
            staleness_max=max(books.staleness),
            stale_groups=books.dropped,
            trainer_idle=max(0.0, 1 - books.working / seconds),
            engines_idle=1 - busy / (seconds * len(self._engines)),
        )

    def _train(self, steps: int, warm_up: int) -> Any:
        workload, training = self._setup.workload, self._setup.training
        for step in range(warm_up + steps):
            if step == warm_up:
                busy = sum(engine.busy_seconds for engine in self._engines)
                self._books = _Books(since=self._environment.now, busy_before=busy)
            batch = yield from self._take()
            self._books.samples += len(batch) * workload.samples
            self._books.staleness += [self._version - group.oldest for group in batch]
            seconds = training.seconds(sum(group.tokens for group in batch))
            self._books.working += seconds + training.load
            yield self._environment.timeout(seconds)
            self._version += 1
            updates = [
                self._environment.process(engine.update(self._version, training.load, self._setup.keep_in_flight))
                for engine in self._engines
            ]
            yield self._environment.all_of(updates)

    def _take(self) -> Any:
        """The oldest batch, once there is one; then there is room for another."""
        self._asked = True
        while True:
            self._drop_stale()
            self._admit()
            if len(self._buffer) >= self._setup.workload.groups:
                break
            self._arrived = self._environment.event()
            yield self._arrived
        self._asked = False
        batch = [self._buffer.popleft() for _ in range(self._setup.workload.groups)]
        self._admit()
        return batch

    def _drop_stale(self) -> None:
        bound = self._setup.max_staleness
        if bound is not None:
            fresh = deque(group for group in self._buffer if self._version - group.oldest <= bound)
            self._books.dropped += len(self._buffer) - len(fresh)
            self._buffer = fresh

    def _admit(self) -> None:
        """Begin groups up to the bound, each on the engine with the fewest samples."""
        capacity = self._setup.queue_size * self._setup.workload.groups
        if self._setup.queue_size == 0 and self._asked:
            capacity = self._setup.workload.groups
        while self._in_flight + len(self._buffer) < capacity:
            self._in_flight += 1
            self._begin(min(range(len(self._loads)), key=self._loads.__getitem__))

    def _begin(self, index: int) -> None:
        samples = self._setup.workload.samples
        group = _Group(samples)
        self._loads[index] += samples

        def started(version: int) -> None:
            group.oldest = min(group.oldest, version)

        def rewarded() -> None:
            group.missing -= 1
            if group.missing == 0:
                self._finish(index, group)

        def sampled() -> None:
            self._graders[index].grade(self._setup.workload.delay(self._random), rewarded)

        for _ in range(samples):
            tokens = self._setup.workload.response_tokens(self._random)
            group.tokens += tokens
            self._engines[index].generate(tokens, started, sampled)

    def _finish(self, index: int, group: _Group) -> None:
        self._loads[index] -= self._setup.workload.samples
        self._in_flight -= 1
        self._buffer.append(group)
        if not self._arrived.triggered:
            self._arrived.succeed()

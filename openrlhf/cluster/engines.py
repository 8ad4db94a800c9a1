"""The group of vLLM engines: prompts go to the least loaded one, weights go to all.

An engine whose process dies is replaced. The new one loads the model, waits for the next weight update (`stale` asks
for one) and then takes requests; those of the dead engine are asked again, there or elsewhere. So a sample is never
lost, and none is handed out twice.
"""

import logging
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import ray

from openrlhf.cluster.actors import EngineActor
from openrlhf.cluster.engine import Engine, EngineState
from openrlhf.cluster.errors import ClusterError, PeerDied
from openrlhf.cluster.flight import Dropped, Flight
from openrlhf.cluster.placement import Seat
from openrlhf.cluster.session import threads_per_process
from openrlhf.cluster.specs import EngineSpec, GroupRequest
from openrlhf.cluster.wait import fetch, finished
from openrlhf.config.run import ClusterConfig
from openrlhf.rollout.balance import least_loaded
from openrlhf.rollout.errors import EngineDead
from openrlhf.rollout.vllm.environment import engine_environment
from openrlhf.types import TransferManifest

MAX_CALLS = 100_000  # concurrent calls of one engine: groups in flight are bounded by the rollout, not by Ray
_DEATHS = (PeerDied, EngineDead)
logger = logging.getLogger(__name__)


class EngineGroup:
    """Engines behind one front. `paused` batches make a run repeatable: no request starts before all are queued.

    Two threads may use it: one that submits and takes groups, one that pushes weights.
    """

    def __init__(self, seats: Sequence[Seat], spec: EngineSpec, cluster: ClusterConfig) -> None:
        self._spec, self._cluster = spec, cluster
        workers = len(seats) * spec.vllm.tensor_parallel_size
        environment = {"env_vars": engine_environment(spec.device, threads_per_process(workers))}
        actor_class: Any = EngineActor

        def maker(seat: Seat) -> Any:
            options = actor_class.options(**seat.options, max_concurrency=MAX_CALLS, runtime_env=environment)
            return options.remote

        self._engines = [Engine(index, maker(seat), spec.vllm.max_restarts) for index, seat in enumerate(seats)]
        self._flight = Flight()
        self._starts: dict[Any, Engine] = {}  # engines that load the model anew, by their call
        self._open: dict[str, GroupRequest] = {}  # groups that were submitted and not yet handed out
        self._waiting: list[GroupRequest] = []  # those of them that no engine runs
        self._asleep = False  # engines have no room to generate in, so nothing starts
        self._replaced = False  # since the last weight update
        self._scored = 0.0  # seconds of scoring that earlier laps have reported
        self._lock = threading.RLock()

    def begin_start(self) -> dict[Any, str]:
        """Load the model in every engine; the refs are for `gather`, so that roles load side by side."""
        return {engine.actor.start.remote(self._spec, engine.index): engine.name for engine in self._engines}

    @property
    def in_flight(self) -> int:
        """Groups that were submitted and not yet handed out."""
        return len(self._open)

    @property
    def generating(self) -> bool:
        """Whether an engine runs a group now."""
        return any(engine.calls for engine in self._engines)

    @property
    def stale(self) -> bool:
        """Whether an engine waits for the current weights before it takes requests."""
        return any(engine.state is EngineState.STALE for engine in self._engines)

    @property
    def replaced(self) -> bool:
        """Whether an engine was replaced since the last weight update: a group for transfers then forms anew."""
        return self._replaced

    def submit(self, requests: Sequence[GroupRequest], *, paused: bool = False) -> None:
        """Start the requests, beside those that already run; `next_group` hands them out as they are done.

        A prompt goes to the engine with the fewest samples in flight; its samples stay together.

        Args:
            paused: queue everything before anything starts, so that the engines' batches form the same way each time.
                Nothing else may be in flight.
        """
        with self._lock:
            self._open.update((request.group_id, request) for request in requests)
            if not paused:
                self._waiting += requests
                self._spread()
                return
            batches: list[list[GroupRequest]] = [[] for _ in self._engines]
            loads = [0] * len(self._engines)
            for request in requests:
                index = least_loaded(loads)
                loads[index] += request.n
                batches[index].append(request)
            for engine, batch in zip(self._engines, batches, strict=True):
                engine.batch = batch
            ready = self._ready()
        self._run_batches(ready)

    def next_group(self, within: float | None = None) -> Any:
        """The next GroupResult, as its last sample is scored; None if no call is answered `within` so many seconds.

        Raises:
            PeerTimeout: a group was not done `cluster.rollout_timeout` seconds after its start, or an engine not up
                after `cluster.start_timeout`; EngineLost; RewardError.
        """
        while True:
            ref = self._flight.ready(within)
            if ref is None and not len(self._flight):
                time.sleep(within or 0)  # all that is left waits for an engine that waits for weights
            if ref is None:
                return None
            result = self._answer(ref)
            if result is not None:
                return result

    def lap(self) -> dict[str, float]:
        """Seconds since the last lap in which samples were being scored, on the engine that was busiest with it."""
        scoring = max((seconds for _, (_, seconds) in self._ask("busy_seconds")), default=0.0)
        lap, self._scored = max(0.0, scoring - self._scored), scoring
        return {"timing/reward": lap}

    def receive(self, manifest: TransferManifest, only_stale: bool = False) -> None:
        """Give the weights of a transfer to every engine that is up. One that dies of it is replaced."""
        stale = [engine for engine in self._engines if engine.state is EngineState.STALE]
        answers = self._ask("receive_weights", manifest, of=stale if only_stale else None)
        self.received([actor for actor, _ in answers])

    def begin_receive(self, manifest: TransferManifest) -> tuple[dict[Any, str], list[Any]]:
        """Start receiving in every engine: the calls, and the processes that were asked, for `received` afterwards."""
        with self._lock:
            asked = [engine.actor for engine in self._engines]
            return {e.actor.receive_weights.remote(manifest): e.name for e in self._engines}, asked

    def received(self, actors: Sequence[Any]) -> None:
        """These processes hold the current weights: their engines take requests, once they are awake. One that has
        taken the place of such a process meanwhile has those of the model's folder, and stays stale."""
        with self._lock:
            fresh = [
                engine
                for engine in self._engines
                if engine.state is EngineState.STALE and any(engine.actor is actor for actor in actors)
            ]
            for engine in fresh:
                engine.state = EngineState.READY
            self._replaced = any(engine.state is not EngineState.READY for engine in self._engines)
            self._spread()
        self._run_batches(fresh)

    def complete(self) -> None:
        """Wait until every engine's process is up; for transfers that all must take part in."""
        while starts := {ref: engine.name for ref, engine in list(self._starts.items())}:
            for ref in finished(starts, "load the model", self._cluster.start_timeout):
                self._answer(ref)

    def sleep(self) -> None:
        """Leave the GPU. Groups that wait start when all are awake again: an update of the weights in between would
        let an engine generate, though its cache is not there."""
        self._asleep = True
        self._ask("sleep")

    def wake(self, tags: Sequence[str] | None = None) -> None:
        """Undo `sleep`, and start what waits; or bring back the part of the memory that `tags` name."""
        self._ask("wake", tags)
        if tags is None and self._asleep:
            with self._lock:
                self._asleep = False
                self._spread()
                ready = self._ready()
            self._run_batches(ready)

    def end(self) -> None:
        """Every engine leaves, so that its own child processes go with it; then it is killed."""
        try:
            self._shutdown()
        except (ClusterError, RuntimeError, OSError) as error:
            logger.warning("engines did not shut down by themselves: %s", error)
        for engine in self._engines:
            ray.kill(engine.actor)

    def _shutdown(self) -> None:
        """Ask every engine to leave; one that is dead has left."""
        up = [engine for engine in self._engines if engine.state is not EngineState.STARTING]
        calls = {engine.actor.shutdown.remote(): engine.name for engine in up}
        for ref in finished(calls, "shutdown", 30):
            with suppress(*_DEATHS):
                fetch(ref, calls[ref], "shutdown")

    def _ready(self) -> list[Engine]:
        return [engine for engine in self._engines if engine.state is EngineState.READY]

    def _spread(self) -> None:
        """Hand waiting requests to the engines that take some. The caller holds the lock."""
        ready = [] if self._asleep else self._ready()
        while ready and self._waiting:
            engine = ready[least_loaded([engine.load for engine in ready])]
            self._run(engine, self._waiting.pop(0))

    def _run(self, engine: Engine, request: GroupRequest) -> None:
        ref = engine.actor.run_group.remote(request)
        engine.calls[ref] = request
        engine.load += request.n
        self._flight.add(ref, engine.name, "rollout", self._cluster.rollout_timeout)

    def _run_batches(self, engines: Sequence[Engine]) -> None:
        """Run what is left of these engines' batches, whole: what runs beside a request must not change its samples."""
        with self._lock:
            awake = [] if self._asleep else engines
            busy = [e for e in awake if any(request.group_id in self._open for request in e.batch)]
        self._ask("hold", of=busy)
        with self._lock:
            for engine in busy:
                if engine.state is not EngineState.READY:
                    continue  # it died, and comes here again
                for request in engine.batch:
                    self._run(engine, request)
                # Waited for together with the groups: a sample that fails before it is queued would leave its engine
                # held for ever.
                ref = engine.actor.release.remote(sum(request.n for request in engine.batch))
                self._flight.add(ref, engine.name, "rollout", self._cluster.rollout_timeout)

    def _answer(self, ref: Any) -> Any | None:
        """Book a call that is answered; the GroupResult, where it is one that nobody has yet."""
        with self._lock:
            engine = self._starts.get(ref) or next((e for e in self._engines if ref in e.calls), None)
            actor = engine.actor if engine else None
        try:
            result = self._flight.take(ref)
        except Dropped:  # of an engine that was replaced
            return None
        except Exception as error:  # an engine that fails while it starts raises whatever loading a model does
            if not (isinstance(error, _DEATHS) or ref in self._starts):
                raise
            if engine is not None:
                self._lose(engine, actor, error)
            return None  # a `release` goes down with the groups of its engine
        with self._lock:
            if self._starts.pop(ref, None) is not None:
                assert engine is not None
                engine.state = EngineState.STALE
                return None
            request = engine.calls.pop(ref, None) if engine else None
            if engine is None or request is None:
                return None
            engine.load -= request.n
            return result if self._open.pop(request.group_id, None) is not None else None

    def _ask(self, method: str, *arguments: Any, of: Sequence[Engine] | None = None) -> list[tuple[Any, Any]]:
        """Call the engines that are up (or these); each process that answers, with its answer. One that dies of it is
        replaced, and answers nothing."""
        with self._lock:
            up = [e for e in (self._engines if of is None else of) if e.state is not EngineState.STARTING]
            calls = {getattr(e.actor, method).remote(*arguments): (e, e.actor) for e in up}
        answers: list[tuple[Any, Any]] = []
        work = method.replace("_", " ")
        names = {ref: engine.name for ref, (engine, _) in calls.items()}
        for ref in finished(names, work, self._cluster.sync_timeout):
            engine, actor = calls[ref]
            try:
                answers.append((actor, fetch(ref, engine.name, work)))
            except _DEATHS as error:
                self._lose(engine, actor, error)
        return answers

    def _lose(self, engine: Engine, actor: Any, error: Exception) -> None:
        """Replace an engine whose process `actor` is dead, unless that has happened already."""
        with self._lock:
            if engine.actor is not actor:
                return
            self._flight.drop(engine.calls)
            for ref in [ref for ref, starting in self._starts.items() if starting is engine]:
                del self._starts[ref]
            lost = engine.restart(str(error))
            logger.warning(
                "%s; restarting it (%d of %d), %d groups are asked again",
                error,
                engine.restarts,
                engine.max_restarts,
                len(lost),
            )
            if not engine.batch:
                self._waiting = [request for request in lost if request.group_id in self._open] + self._waiting
            self._replaced = True
            start = engine.actor.start.remote(self._spec, engine.index)
            self._starts[start] = engine
            self._flight.add(start, engine.name, "load the model", self._cluster.start_timeout)
            self._spread()

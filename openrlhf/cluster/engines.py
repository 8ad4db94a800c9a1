"""The group of vLLM engines: prompts go to the least loaded one, weights go to all."""

from collections.abc import Iterator, Sequence
from typing import Any

import ray

from openrlhf.cluster.actors import EngineActor
from openrlhf.cluster.flight import Flight
from openrlhf.cluster.placement import Seat
from openrlhf.cluster.session import threads_per_process
from openrlhf.cluster.specs import EngineSpec, GroupRequest
from openrlhf.cluster.wait import gather
from openrlhf.config.run import ClusterConfig
from openrlhf.rollout.balance import least_loaded
from openrlhf.rollout.vllm.environment import engine_environment
from openrlhf.types import TransferManifest

MAX_CALLS = 100_000  # concurrent calls of one engine: groups in flight are bounded by the rollout, not by Ray


class EngineGroup:
    """Engines behind one front. `paused` batches make a run repeatable: no request starts before all are queued."""

    def __init__(self, seats: Sequence[Seat], spec: EngineSpec, cluster: ClusterConfig) -> None:
        self._spec, self._cluster = spec, cluster
        environment = {"env_vars": engine_environment(spec.device, threads_per_process(len(seats)))}
        actor_class: Any = EngineActor
        self._actors = [
            actor_class.options(**seat.options, max_concurrency=MAX_CALLS, runtime_env=environment).remote()
            for seat in seats
        ]
        self._names = [f"vLLM engine {index}" for index in range(len(seats))]
        self._flight = Flight("rollout")
        self._groups: dict[Any, tuple[int, int]] = {}  # engine and samples of each group in flight
        self._loads = [0] * len(seats)  # samples in flight
        self._scored = 0.0  # seconds of scoring that earlier laps have reported

    def begin_start(self) -> dict[Any, str]:
        """Load the model in every engine; the refs are for `gather`, so that roles load side by side."""
        return {
            actor.start.remote(self._spec, index): name
            for index, (actor, name) in enumerate(zip(self._actors, self._names, strict=True))
        }

    @property
    def in_flight(self) -> int:
        """Groups that were submitted and not yet handed out."""
        return len(self._groups)

    def submit(self, requests: Sequence[GroupRequest], *, paused: bool = False) -> None:
        """Start the requests, beside those that already run; `next_group` hands them out as they are done.

        A prompt goes to the engine with the fewest samples in flight; its samples stay together.

        Args:
            paused: queue everything before anything starts, so that the engines' batches form the same way each time.
                Nothing else may be in flight.
        """
        if paused:
            self._collective("hold")
        held = [0] * len(self._actors)
        for request in requests:
            index = least_loaded(self._loads)
            self._loads[index] += request.n
            held[index] += request.n
            ref = self._actors[index].run_group.remote(request)
            self._groups[ref] = (index, request.n)
            self._flight.add(ref, self._names[index], self._cluster.rollout_timeout)
        if paused:
            # Waited for together with the groups: a sample that fails before it is queued would leave its engine held
            # for ever.
            for actor, name, count in zip(self._actors, self._names, held, strict=True):
                self._flight.add(actor.release.remote(count), name, self._cluster.rollout_timeout)

    def next_group(self, within: float | None = None) -> Any:
        """The next GroupResult, as its last sample is scored; None if no call is answered `within` so many seconds.

        Raises:
            PeerTimeout: a group was not done `cluster.rollout_timeout` seconds after its start; PeerDied; RewardError.
        """
        while True:
            answer = self._flight.next(within)
            if answer is None:
                return None
            ref, result = answer
            if ref in self._groups:
                index, samples = self._groups.pop(ref)
                self._loads[index] -= samples
                return result

    def generate(self, requests: Sequence[GroupRequest], *, paused: bool) -> Iterator[Any]:
        """Run all requests and yield each GroupResult as it is done; see `submit` and `next_group`."""
        self.submit(requests, paused=paused)
        while self.in_flight:
            yield self.next_group()

    def lap(self) -> dict[str, float]:
        """Seconds since the last lap in which samples were being scored, on the engine that was busiest with it."""
        busy = gather(self._call_all("busy_seconds"), "busy seconds", self._cluster.sync_timeout)
        scoring = max(seconds for _, seconds in busy)
        lap, self._scored = scoring - self._scored, scoring
        return {"timing/reward": lap}

    def begin_receive(self, manifest: TransferManifest) -> dict[Any, str]:
        return self._call_all("receive_weights", manifest)

    def sleep(self) -> None:
        self._collective("sleep")

    def wake(self, tags: Sequence[str] | None = None) -> None:
        self._collective("wake", tags)

    def shutdown(self) -> None:
        gather(self._call_all("shutdown"), "shutdown", 30)

    def kill(self) -> None:
        for actor in self._actors:
            ray.kill(actor)

    def _collective(self, method: str, *arguments: Any) -> None:
        gather(self._call_all(method, *arguments), method, self._cluster.sync_timeout)

    def _call_all(self, method: str, *arguments: Any) -> dict[Any, str]:
        return {
            getattr(actor, method).remote(*arguments): name
            for actor, name in zip(self._actors, self._names, strict=True)
        }

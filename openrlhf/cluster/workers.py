"""Groups of trainer processes: one call here is the same call on every rank."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import ray

from openrlhf.cluster.actors import PolicyActor, ReferenceActor
from openrlhf.cluster.placement import Seat
from openrlhf.cluster.session import threads_per_process
from openrlhf.cluster.specs import PolicySpec, RankPlace, ReferenceSpec
from openrlhf.cluster.wait import gather
from openrlhf.config.run import ClusterConfig
from openrlhf.types import MicroBatch, TransferManifest


class _WorkerGroup:
    """Ranks of one role. Calls are collective: the first rank that fails ends the call with its own error."""

    def __init__(self, role: str, actor_class: Any, seats: Sequence[Seat], cluster: ClusterConfig) -> None:
        self._cluster = cluster
        environment = {"env_vars": {"OMP_NUM_THREADS": str(threads_per_process(len(seats)))}}
        self._actors = [actor_class.options(**seat.options, runtime_env=environment).remote() for seat in seats]
        self._names = [f"{role} rank {rank}" for rank in range(len(seats))]

    @property
    def world_size(self) -> int:
        return len(self._actors)

    def begin_load(self, spec: PolicySpec | ReferenceSpec) -> dict[Any, str]:
        """Start loading on every rank; the refs are for `gather`, so that roles load side by side."""
        first = {self._actors[0].rendezvous.remote(): self._names[0]}
        address, port = gather(first, "start", self._cluster.start_timeout)[0]
        places = [RankPlace(rank, self.world_size, address, port) for rank in range(self.world_size)]
        return self._call_all("load", *((spec, place) for place in places))

    def logprobs(self, batches: Sequence[Sequence[MicroBatch]]) -> list[list[np.ndarray]]:
        """Log-probabilities of each rank's micro-batches, (N,) each."""
        refs = self._call_all("logprobs", *((own,) for own in batches))
        return gather(refs, "logprobs", self._cluster.train_timeout)

    def kill(self) -> None:
        for actor in self._actors:
            ray.kill(actor)

    def _call_all(self, method: str, *arguments: Sequence[Any]) -> dict[Any, str]:
        calls = arguments if arguments else ((),) * self.world_size
        return {
            getattr(actor, method).remote(*own): name
            for actor, name, own in zip(self._actors, self._names, calls, strict=True)
        }


class PolicyGroup(_WorkerGroup):
    """The trained policy over its data-parallel ranks."""

    def __init__(self, seats: Sequence[Seat], cluster: ClusterConfig) -> None:
        super().__init__("policy", PolicyActor, seats, cluster)

    def train_step(self, batches: Sequence[Sequence[MicroBatch]], kl_coef: float) -> list[Any]:
        """One optimiser step over each rank's micro-batches; the metrics of every rank."""
        refs = self._call_all("train_step", *((own, kl_coef) for own in batches))
        return gather(refs, "train step", self._cluster.train_timeout)

    def describe_weights(self, version: int) -> TransferManifest:
        refs = self._call_all("describe_weights", *((version,),) * self.world_size)
        return gather(refs, "describe weights", self._cluster.sync_timeout)[0]

    def begin_send(self, version: int) -> dict[Any, str]:
        return self._call_all("send_weights", *((version,),) * self.world_size)

    def release_weights(self) -> None:
        gather(self._call_all("release_weights"), "release weights", self._cluster.sync_timeout)

    def save_hf(self, folder: Path) -> None:
        """Export the policy in Hugging Face format to `folder`, weights gathered to rank 0."""
        refs = self._call_all("save_hf", *((folder,),) * self.world_size)
        gather(refs, f"export to {folder}", self._cluster.train_timeout)


class ReferenceGroup(_WorkerGroup):
    """The frozen reference policy over its ranks."""

    def __init__(self, seats: Sequence[Seat], cluster: ClusterConfig) -> None:
        super().__init__("reference", ReferenceActor, seats, cluster)

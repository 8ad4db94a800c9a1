"""Groups of trainer processes: one call here is the same call on every rank."""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import ray

from openrlhf.cluster.actors import CriticActor, PolicyActor, ReferenceActor, RewardActor
from openrlhf.cluster.placement import Seat
from openrlhf.cluster.session import threads_per_process
from openrlhf.cluster.specs import Device, ModelSpec, RankPlace
from openrlhf.cluster.wait import gather
from openrlhf.config.run import ClusterConfig
from openrlhf.types import MicroBatch, TransferManifest

logger = logging.getLogger(__name__)

RankBatches = Sequence[Sequence[MicroBatch]]  # [world_size][micro-batches], equally many on every rank


class WorkerGroup:
    """Ranks of one role. Calls are collective: the first rank that fails ends the call with its own error."""

    def __init__(
        self, role: str, actor_class: Any, seats: Sequence[Seat], device: Device, cluster: ClusterConfig
    ) -> None:
        self._role, self._device, self._cluster = role, device, cluster
        environment = {"env_vars": {"OMP_NUM_THREADS": str(threads_per_process(len(seats)))}}
        self._actors = [actor_class.options(**seat.options, runtime_env=environment).remote() for seat in seats]
        self._names = [f"{role} rank {rank}" for rank in range(len(seats))]

    @property
    def world_size(self) -> int:
        return len(self._actors)

    def begin_load(self, spec: ModelSpec) -> dict[Any, str]:
        """Start loading on every rank; the refs are for `gather`, so that roles load side by side."""
        first = {self._actors[0].rendezvous.remote(): self._names[0]}
        address, port = gather(first, "start", self._cluster.start_timeout)[0]
        places = [RankPlace(rank, self.world_size, address, port) for rank in range(self.world_size)]
        return self._call_all("load", *((spec, place) for place in places))

    def check(self, seconds: float) -> None:
        """Raises PeerDied or PeerTimeout unless every rank answers within so many seconds."""
        self._same("ping", "answer", seconds)

    def kill(self) -> None:
        for actor in self._actors:
            ray.kill(actor)

    def _each(self, method: str, batches: RankBatches, *arguments: Any) -> list[Any]:
        """Call every rank with its own micro-batches; the answers of all ranks."""
        refs = self._call_all(method, *((own, *arguments) for own in batches))
        return gather(refs, method.replace("_", " "), self._cluster.train_timeout)

    def _same(self, method: str, work: str, timeout: float, *arguments: Any) -> list[Any]:
        """Call every rank with the same arguments; the answers of all ranks."""
        return gather(self._call_all(method, *(arguments,) * self.world_size), work, timeout)

    def _call_all(self, method: str, *arguments: Sequence[Any]) -> dict[Any, str]:
        calls = arguments if arguments else ((),) * self.world_size
        return {
            getattr(actor, method).remote(*own): name
            for actor, name, own in zip(self._actors, self._names, calls, strict=True)
        }


class _TrainedGroup(WorkerGroup):
    """Ranks of a trained model, which can leave the GPU to others (`--ds.enable_sleep`)."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._told = False

    def sleep(self) -> None:
        """Move weights and optimiser to CPU memory, where they are already on a CPU machine."""
        self._move("sleep")

    def wake(self) -> None:
        self._move("wake")

    def save_hf(self, folder: Path) -> None:
        """Export the model in Hugging Face format to `folder`, weights gathered to rank 0."""
        self._same("save_hf", f"export to {folder}", self._cluster.train_timeout, folder)

    def save_state(self, folder: Path) -> None:
        """Write all that training goes on from to `folder`, a part of it by each rank."""
        self._same("save_state", f"save to {folder}", self._cluster.train_timeout, folder)

    def load_state(self, folder: Path) -> None:
        """Go on from what `save_state` wrote."""
        self._same("load_state", f"load from {folder}", self._cluster.train_timeout, folder)

    def _move(self, method: str) -> None:
        if self._device == "cuda":
            self._same(method, method, self._cluster.sync_timeout)
        elif not self._told:
            self._told = True
            logger.info("the %s is in CPU memory already: its sleep and wake do nothing", self._role)


class PolicyGroup(_TrainedGroup):
    """The trained policy over its data-parallel ranks."""

    def __init__(self, seats: Sequence[Seat], device: Device, cluster: ClusterConfig) -> None:
        super().__init__("policy", PolicyActor, seats, device, cluster)

    def logprobs(self, batches: RankBatches) -> list[list[np.ndarray]]:
        """Log-probabilities of each rank's micro-batches, (N,) each."""
        return self._each("logprobs", batches)

    def train_step(self, batches: RankBatches, kl_coef: float) -> list[Any]:
        """One optimiser step over each rank's micro-batches; the metrics of every rank."""
        return self._each("train_step", batches, kl_coef)

    def describe_weights(self, version: int) -> TransferManifest:
        return self._same("describe_weights", "describe weights", self._cluster.sync_timeout, version)[0]

    def begin_send(self, version: int) -> dict[Any, str]:
        return self._call_all("send_weights", *((version,),) * self.world_size)

    def leave_transfers(self) -> None:
        """Forget who takes part in weight transfers: the next one forms its group anew."""
        self._same("leave_transfers", "leave transfers", self._cluster.sync_timeout)

    def release_weights(self) -> None:
        self._same("release_weights", "release weights", self._cluster.sync_timeout)


class ReferenceGroup(WorkerGroup):
    """The frozen reference policy over its ranks."""

    def __init__(self, seats: Sequence[Seat], device: Device, cluster: ClusterConfig) -> None:
        super().__init__("reference", ReferenceActor, seats, device, cluster)

    def logprobs(self, batches: RankBatches) -> list[list[np.ndarray]]:
        """Log-probabilities of each rank's micro-batches, (N,) each."""
        return self._each("logprobs", batches)


class CriticGroup(_TrainedGroup):
    """The critic over its data-parallel ranks."""

    def __init__(self, seats: Sequence[Seat], device: Device, cluster: ClusterConfig) -> None:
        super().__init__("critic", CriticActor, seats, device, cluster)

    def values(self, batches: RankBatches) -> list[list[np.ndarray]]:
        """Values of each rank's micro-batches, (N,) each: at t that of the state in which token t is chosen."""
        return self._each("values", batches)

    def train_step(self, batches: RankBatches) -> list[Any]:
        """One optimiser step over each rank's micro-batches; the metrics of every rank."""
        return self._each("train_step", batches)


class RewardGroup(WorkerGroup):
    """The frozen reward models over their ranks; every rank holds all of them."""

    def __init__(self, seats: Sequence[Seat], device: Device, cluster: ClusterConfig) -> None:
        super().__init__("reward model", RewardActor, seats, device, cluster)

    def score(self, batches: RankBatches) -> list[list[np.ndarray]]:
        """Rewards of each rank's micro-batches, (S,) float32 each: one per sequence, a filler's among them."""
        return self._each("score", batches)

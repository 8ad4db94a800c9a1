"""Starting and ending a run's processes."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from openrlhf.cluster.engines import EngineGroup
from openrlhf.cluster.placement import Seating, seat_all
from openrlhf.cluster.session import ray_session
from openrlhf.cluster.specs import ClusterSpec
from openrlhf.cluster.wait import gather
from openrlhf.cluster.workers import CriticGroup, PolicyGroup, ReferenceGroup, RewardGroup, WorkerGroup


@dataclass(frozen=True, slots=True)
class Cluster:
    """The processes of one run; a role that the run does not need is None."""

    policy: PolicyGroup
    reference: ReferenceGroup | None
    engines: EngineGroup
    critic: CriticGroup | None = None
    reward: RewardGroup | None = None

    @property
    def models(self) -> list[WorkerGroup]:
        """Every group but the engines."""
        groups = [self.policy, self.reference, self.critic, self.reward]
        return [group for group in groups if group is not None]


@contextmanager
def launch(spec: ClusterSpec) -> Iterator[Cluster]:
    """Start every process, load every model side by side, and end them all with the block, however it ends."""
    with ray_session(spec.policy.device):
        seating = seat_all(spec)
        cluster = _start(spec, seating)
        try:
            gather(_begin_loading(spec, cluster), "load the model", spec.cluster.start_timeout)
            yield cluster
        finally:
            cluster.engines.end()
            for group in cluster.models:
                group.kill()
            seating.release()


def _start(spec: ClusterSpec, seating: Seating) -> Cluster:
    return Cluster(
        policy=PolicyGroup(seating.policy, spec.policy.device, spec.cluster),
        reference=ReferenceGroup(seating.reference, spec.reference.device, spec.cluster) if spec.reference else None,
        engines=EngineGroup(seating.engines, spec.engine, spec.cluster),
        critic=CriticGroup(seating.critic, spec.critic.device, spec.cluster) if spec.critic else None,
        reward=RewardGroup(seating.reward, spec.reward.device, spec.cluster) if spec.reward else None,
    )


def _begin_loading(spec: ClusterSpec, cluster: Cluster) -> dict[Any, str]:
    specs = [spec.policy, spec.reference, spec.critic, spec.reward]
    loading = cluster.engines.begin_start()
    for group, own in zip(cluster.models, [given for given in specs if given is not None], strict=True):
        loading |= group.begin_load(own)
    return loading

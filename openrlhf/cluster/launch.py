"""Starting and ending a run's processes."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from openrlhf.cluster.engines import EngineGroup
from openrlhf.cluster.errors import ClusterError
from openrlhf.cluster.placement import seat_all
from openrlhf.cluster.session import ray_session
from openrlhf.cluster.specs import ClusterSpec
from openrlhf.cluster.wait import gather
from openrlhf.cluster.workers import PolicyGroup, ReferenceGroup

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Cluster:
    """The processes of one run."""

    policy: PolicyGroup
    reference: ReferenceGroup | None
    engines: EngineGroup


@contextmanager
def launch(spec: ClusterSpec) -> Iterator[Cluster]:
    """Start every process, load every model side by side, and end them all with the block, however it ends."""
    with ray_session(spec.policy.device):
        seating = seat_all(spec)
        policy = PolicyGroup(seating.policy, spec.cluster)
        reference = ReferenceGroup(seating.reference, spec.cluster) if spec.reference else None
        engines = EngineGroup(seating.engines, spec.engine, spec.cluster)
        try:
            loading = {**engines.begin_start(), **policy.begin_load(spec.policy)}
            if reference is not None and spec.reference is not None:
                loading.update(reference.begin_load(spec.reference))
            gather(loading, "load the model", spec.cluster.start_timeout)
            yield Cluster(policy, reference, engines)
        finally:
            _end(policy, reference, engines)
            seating.release()


def _end(policy: PolicyGroup, reference: ReferenceGroup | None, engines: EngineGroup) -> None:
    """Engines are asked to leave, so that their own child processes go with them; then everyone is killed."""
    try:
        engines.shutdown()
    except (ClusterError, RuntimeError, OSError) as error:
        logger.warning("engines did not shut down by themselves: %s", error)
    engines.kill()
    policy.kill()
    if reference is not None:
        reference.kill()

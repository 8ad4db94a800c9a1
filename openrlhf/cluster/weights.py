"""One weight update: policy to every engine. Which transport carries it is the sender's business."""

from openrlhf.cluster.engines import EngineGroup
from openrlhf.cluster.wait import gather
from openrlhf.cluster.workers import PolicyGroup
from openrlhf.config.rollout import SyncBackend
from openrlhf.config.run import ClusterConfig
from openrlhf.sync.ipc import merge_manifests

_STREAMING = {"nccl"}  # both sides must run at once


def push_weights(
    policy: PolicyGroup,
    engines: EngineGroup,
    version: int,
    backend: SyncBackend,
    cluster: ClusterConfig,
    *,
    only_stale: bool = False,
) -> None:
    """Give the engines the policy's weights as `version`. One that dies is replaced, and stale until the next time.

    `only_stale`: leave out those that have them; where all must take part in a transfer, all get them again.

    Raises:
        PeerTimeout, PeerDied: the policy did not send them. EngineLost, and where all take part at once EngineDead or
            PeerDied: an engine did not receive them.
    """
    if backend in _STREAMING:
        engines.complete()
        if engines.replaced:
            policy.leave_transfers()
        manifest = policy.describe_weights(version)
        receiving, actors = engines.begin_receive(manifest)
        gather({**receiving, **policy.begin_send(version)}, f"weight update {version}", cluster.sync_timeout)
        engines.received(actors)
    else:
        sent = gather(policy.begin_send(version), f"send weights {version}", cluster.sync_timeout)
        manifests = [manifest for manifest in sent if manifest is not None]
        manifest = manifests[0] if len(manifests) == 1 else merge_manifests(manifests)
        engines.receive(manifest, only_stale)
    policy.release_weights()

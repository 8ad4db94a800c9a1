"""One weight update: policy to every engine. Which transport carries it is the sender's business."""

from openrlhf.cluster.engines import EngineGroup
from openrlhf.cluster.wait import gather
from openrlhf.cluster.workers import PolicyGroup
from openrlhf.config.rollout import SyncBackend
from openrlhf.config.run import ClusterConfig
from openrlhf.sync.ipc import merge_manifests

_STREAMING = {"nccl"}  # both sides must run at once


def push_weights(
    policy: PolicyGroup, engines: EngineGroup, version: int, backend: SyncBackend, cluster: ClusterConfig
) -> None:
    """Give all engines the policy's weights as `version`.

    Raises:
        PeerTimeout, PeerDied, EngineDead: the update is incomplete; the engines that failed refuse to generate.
    """
    if backend in _STREAMING:
        manifest = policy.describe_weights(version)
        both = {**engines.begin_receive(manifest), **policy.begin_send(version)}
        gather(both, f"weight update {version}", cluster.sync_timeout)
    else:
        sent = gather(policy.begin_send(version), f"send weights {version}", cluster.sync_timeout)
        manifests = [manifest for manifest in sent if manifest is not None]
        manifest = manifests[0] if len(manifests) == 1 else merge_manifests(manifests)
        gather(engines.begin_receive(manifest), f"receive weights {version}", cluster.sync_timeout)
    policy.release_weights()

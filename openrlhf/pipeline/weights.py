"""From the policy to the engines: after every update, and to an engine that had to be replaced."""

from openrlhf.cluster.weights import push_weights
from openrlhf.pipeline.job import Job
from openrlhf.pipeline.sleep import model_awake


def push(job: Job, only_stale: bool = False) -> None:
    """Give the engines the policy's current weights, which are those of `job.version`; the policy is at rest.

    `only_stale`: those engines that were replaced, where the way of the weights allows it.
    """
    if job.config.vllm.enable_sleep:
        job.cluster.engines.wake(("weights",))
    with job.clock.phase("broadcast"), model_awake(job, job.cluster.policy):
        push_weights(
            job.cluster.policy,
            job.cluster.engines,
            job.version,
            job.config.vllm.sync_backend or "shm",
            job.config.cluster,
            only_stale=only_stale,
        )


def revive(job: Job) -> None:
    """Bring engines that were replaced up to date. Call it wherever the training loop waits, between two updates.

    On a shared GPU the policy has no room beside engines that generate: there it waits until nothing is left but what
    waits for weights.
    """
    engines = job.cluster.engines
    if not engines.stale:
        return
    if not job.config.vllm.enable_sleep:
        push(job, only_stale=True)
    elif not engines.generating:
        engines.sleep()
        push(job, only_stale=True)
        engines.wake()

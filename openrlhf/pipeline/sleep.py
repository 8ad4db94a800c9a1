"""Who is on a shared GPU when: engines while they generate, a trained model while it computes."""

from collections.abc import Iterator
from contextlib import contextmanager

from openrlhf.cluster.workers import CriticGroup, PolicyGroup
from openrlhf.pipeline.job import Job


@contextmanager
def engines_awake(job: Job) -> Iterator[None]:
    """Engines hold their memory for just as long as the block takes, with vllm.enable_sleep."""
    sleeping = job.config.vllm.enable_sleep
    if sleeping:
        job.cluster.engines.wake()
    yield
    if sleeping:
        job.cluster.engines.sleep()


@contextmanager
def model_awake(job: Job, group: PolicyGroup | CriticGroup) -> Iterator[None]:
    """The model's states are on the GPU for just as long as the block takes, with ds.enable_sleep."""
    sleeping = job.config.ds.enable_sleep
    if sleeping:
        group.wake()
    yield
    if sleeping:
        group.sleep()


def models_to_bed(job: Job) -> None:
    """Leave the GPU to others: after loading to the engines, which come first."""
    if not job.config.ds.enable_sleep:
        return
    job.cluster.policy.sleep()
    if job.cluster.critic is not None:
        job.cluster.critic.sleep()


def leave_the_gpu(job: Job) -> None:
    """The run is over, wherever it was: whoever may be on a shared GPU leaves it, so that a model can be saved.

    Engines end, for they sleep only when their requests are done.
    """
    if job.config.vllm.enable_sleep:
        job.cluster.engines.end()
    models_to_bed(job)

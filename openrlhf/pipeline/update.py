"""The training phase of a step: the critic first, then the policy, each in passes of optimiser steps."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from openrlhf.pipeline.batching import MicroBatchLimit, dispatch, optimiser_batches
from openrlhf.pipeline.job import Job
from openrlhf.pipeline.sleep import model_awake
from openrlhf.rl.metrics import MetricSum, finalize, merge
from openrlhf.types import Experience, MicroBatch

Metrics = dict[str, MetricSum]


def update_critic(job: Job, experience: Experience) -> dict[str, float]:
    """Train the value model, where there is one; its metrics."""
    critic = job.cluster.critic
    if critic is None:
        return {}
    with job.clock.phase("critic_train"), model_awake(job, critic):
        parts = list(_passes(job, experience, critic.world_size, critic.train_step))
    return finalize(merge(parts))


def update_policy(job: Job, experience: Experience) -> dict[str, float]:
    """Train the policy: max_epochs passes in optimiser steps of train.batch_size samples; its metrics."""
    policy, train = job.cluster.policy, job.config.train
    with job.clock.phase("ppo_train"), model_awake(job, policy):
        parts = list(
            _passes(job, experience, policy.world_size, lambda batches: policy.train_step(batches, job.kl.coef))
        )
    return finalize(merge(parts)) | {
        "train/tokens_trained": float(experience.loss_mask.sum()) * train.max_epochs,
        "train/tokens_processed": float(experience.attention_mask.sum()) * train.max_epochs,
    }


def _passes(
    job: Job,
    experience: Experience,
    world_size: int,
    train_step: Callable[[Sequence[Sequence[MicroBatch]]], Sequence[Any]],
) -> Iterator[Metrics]:
    """Every rank's metrics of every optimiser step; samples are shuffled anew for each pass."""
    train = job.config.train
    limit = MicroBatchLimit.for_training(train, job.config.ds)
    generator = np.random.default_rng((train.seed, job.step))
    for _ in range(train.max_epochs):
        for rows in optimiser_batches(experience, train.batch_size, generator):
            yield from train_step(dispatch(experience, rows, world_size, limit).batches)

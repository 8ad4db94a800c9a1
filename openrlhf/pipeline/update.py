"""The training phase of a step: the critic first, then the policy, each in passes of optimiser steps."""

from collections.abc import Iterator, Sequence

import numpy as np

from openrlhf.pipeline.batching import Dispatch, MicroBatchLimit, dispatch, optimiser_batches
from openrlhf.pipeline.job import Job
from openrlhf.pipeline.sleep import model_awake
from openrlhf.rl.metrics import MetricSum, PolicyStep, finalize, merge
from openrlhf.types import Experience

Metrics = dict[str, MetricSum]


def update_critic(job: Job, experience: Experience) -> dict[str, float]:
    """Train the value model, where there is one; its metrics."""
    critic = job.cluster.critic
    if critic is None:
        return {}
    with job.clock.phase("critic_train"), model_awake(job, critic):
        parts = [
            part for batch in _steps(job, experience, critic.world_size) for part in critic.train_step(batch.batches)
        ]
    return finalize(merge(parts))


def update_policy(job: Job, experience: Experience) -> dict[str, float]:
    """Train the policy: max_epochs passes in optimiser steps of train.batch_size samples; its metrics.

    Where no pass of their own has computed the old log-probabilities, they are those of the only step, and the
    experience gets them from it for the records.
    """
    policy, train = job.cluster.policy, job.config.train
    parts: list[Metrics] = []
    with job.clock.phase("ppo_train"), model_awake(job, policy):
        for batch in _steps(job, experience, policy.world_size):
            answers: Sequence[PolicyStep] = policy.train_step(batch.batches, job.kl.coef)
            parts += [answer.metrics for answer in answers]
            if experience.old_logprobs is None:
                experience.old_logprobs = batch.collect([answer.logprobs for answer in answers], experience)
    return finalize(merge(parts)) | {
        "train/tokens_trained": float(experience.loss_mask.sum()) * train.max_epochs,
        "train/tokens_processed": float(experience.attention_mask.sum()) * train.max_epochs,
    }


def _steps(job: Job, experience: Experience, world_size: int) -> Iterator[Dispatch]:
    """The micro-batches of every optimiser step; samples are shuffled anew for each pass."""
    train, flags = job.config.train, job.config.algo.bad_examples
    limit = MicroBatchLimit.for_training(train, job.config.ds)
    generator = np.random.default_rng((train.seed, job.step))
    stay = flags.loss_mask_enable or flags.advantage_mask == "skip"
    left_out = None if stay else experience.bad_examples
    for _ in range(train.max_epochs):
        for rows in optimiser_batches(experience, train.batch_size, generator, left_out):
            yield dispatch(experience, rows, world_size, limit)

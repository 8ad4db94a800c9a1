"""The stages of a training step. Each takes the job and what the stage before it made."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from openrlhf.cluster.specs import GroupRequest
from openrlhf.cluster.weights import push_weights
from openrlhf.data.ledger import PromptState
from openrlhf.pipeline.batching import MicroBatchLimit, dispatch, optimiser_batches
from openrlhf.pipeline.job import Job
from openrlhf.rl.advantages.compute import compute_advantages
from openrlhf.rl.advantages.registry import estimator
from openrlhf.rl.filtering import apply_ungraded_policy
from openrlhf.rl.metrics import MetricSum, finalize, merge, rollout_metrics
from openrlhf.rl.packing import collate
from openrlhf.rl.shaping import clip_rewards
from openrlhf.rollout.seeds import sample_seed
from openrlhf.types import Experience, Prompt, RolloutGroup, SamplingParams


@dataclass(slots=True)
class StepReport:
    """What one step has measured so far."""

    metrics: dict[str, float] = field(default_factory=dict)
    trained: list[dict[str, MetricSum]] = field(default_factory=list)  # one per rank and optimiser step
    groups: list[RolloutGroup] = field(default_factory=list)  # all that were generated, kept or not


def draw(job: Job) -> list[Prompt]:
    """The next prompts, at most rollout.batch_size; fewer at the end of an episode, none at the end of the run."""
    drawn = job.loader.draw()
    job.ledger.draw(job.loader.episode, [prompt.prompt_id for prompt in drawn])
    return drawn


def roll_out(job: Job, prompts: Sequence[Prompt], report: StepReport) -> list[RolloutGroup]:
    """Sample and score every prompt's group with the policy's current weights, in the order of the prompts."""
    rollout = job.config.rollout
    sampling = SamplingParams(temperature=rollout.temperature, top_p=rollout.top_p, max_tokens=rollout.max_new_tokens)
    requests = group_requests(job, prompts, rollout.n_samples_per_prompt, sampling, draw=job.step)
    move(job, prompts, PromptState.IN_FLIGHT)
    with job.clock.phase("generation"):
        report.groups, stats = generate(job, requests)
    move(job, prompts, PromptState.BUFFERED)
    sampled = sum(rollout.num_actions for group in report.groups for rollout in group.rollouts)
    report.metrics |= stats | {"rollout/tokens_generated": float(sampled)}
    return report.groups


def group_requests(
    job: Job, prompts: Sequence[Prompt], n: int, sampling: SamplingParams, draw: int
) -> list[GroupRequest]:
    """One request per prompt; `draw` tells one draw of a prompt from the next.

    With full determinism every sample has its own seed, from what it is and not from when it ran.
    """
    train = job.config.train

    def seeds(prompt: Prompt) -> tuple[int, ...] | None:
        if not train.full_determinism_enable:
            return None
        return tuple(sample_seed(train.seed, draw, prompt.prompt_id, index) for index in range(n))

    return [GroupRequest(prompt, f"{draw}:{prompt.prompt_id}", n, sampling, seeds(prompt)) for prompt in prompts]


def generate(job: Job, requests: Sequence[GroupRequest]) -> tuple[list[RolloutGroup], dict[str, float]]:
    """Run the requests, engines awake for just as long; groups in the order of the requests, and the timing."""
    engines = job.cluster.engines
    if job.config.vllm.enable_sleep:
        engines.wake()
    results = list(engines.generate(requests, paused=job.config.train.full_determinism_enable))
    if job.config.vllm.enable_sleep:
        engines.sleep()
    by_id = {result.group.group_id: result.group for result in results}
    return [by_id[request.group_id] for request in requests], engines.lap()


def keep(job: Job, groups: Sequence[RolloutGroup], report: StepReport) -> list[RolloutGroup]:
    """Leave out what has no verdict, as reward.ungraded says."""
    grouped = estimator(job.config.algo.advantage.estimator).grouped
    result = apply_ungraded_policy(groups, job.config.reward.ungraded, grouped)
    report.metrics |= finalize(result.metrics) | rollout_metrics(result.kept)
    return result.kept


def make_experience(job: Job, groups: Sequence[RolloutGroup]) -> Experience | None:
    """One padded batch with the logprobs that the advantages and the loss will need; None if nothing is left."""
    if not groups:
        return None
    with job.clock.phase("make_experience"):
        experience = collate(groups)
        experience.rewards = clip_rewards(experience.rewards, job.config.reward.clip_range)
        limit = MicroBatchLimit.for_scoring(job.config.rollout, job.config.train, job.config.ds)
        rows = range(len(experience))
        if needs_old_logprobs(job, experience):
            scored = dispatch(experience, rows, job.cluster.policy.world_size, limit)
            experience.old_logprobs = scored.collect(job.cluster.policy.logprobs(scored.batches), experience)
        if job.cluster.reference is not None:
            scored = dispatch(experience, rows, job.cluster.reference.world_size, limit)
            experience.ref_logprobs = scored.collect(job.cluster.reference.logprobs(scored.batches), experience)
    return experience


def needs_old_logprobs(job: Job, experience: Experience) -> bool:
    """Whether the policy's logprobs before the update must be computed in a pass of their own.

    With a single optimiser step over the whole batch they are the step's own logprobs, exactly, so no pass is needed;
    KL in the reward needs them before the step in any case.
    """
    train, kl = job.config.train, job.config.algo.kl
    several_steps = train.max_epochs > 1 or len(np.unique(experience.sample_ids)) > train.batch_size
    return several_steps or (job.kl.coef > 0 and not kl.use_loss)


def estimate_advantages(job: Job, experience: Experience, report: StepReport) -> None:
    """Fill in advantages and returns."""
    with job.clock.phase("make_experience"):
        result = compute_advantages(experience, job.config.algo.advantage, job.config.algo.kl, job.kl.coef)
    experience.advantages, experience.returns = result.advantages, result.returns
    report.metrics |= result.metrics


def update(job: Job, experience: Experience, report: StepReport) -> None:
    """Train the policy on the experience: max_epochs passes in optimiser steps of train.batch_size samples."""
    train, policy = job.config.train, job.cluster.policy
    limit = MicroBatchLimit.for_training(train, job.config.ds)
    generator = np.random.default_rng((train.seed, job.step))
    with job.clock.phase("ppo_train"):
        for _ in range(train.max_epochs):
            for rows in optimiser_batches(experience, train.batch_size, generator):
                batches = dispatch(experience, rows, policy.world_size, limit).batches
                report.trained += policy.train_step(batches, job.kl.coef)
    trained = finalize(merge(report.trained))
    job.kl.update(report.metrics.get("rollout/kl", trained.get("train/kl")), len(np.unique(experience.sample_ids)))
    report.metrics |= trained | {
        "train/kl_coef": job.kl.coef,
        "train/tokens_trained": float(experience.loss_mask.sum()) * train.max_epochs,
        "train/tokens_processed": float(experience.attention_mask.sum()) * train.max_epochs,
    }


def sync(job: Job) -> None:
    """Push the new weights to every engine."""
    if job.config.vllm.enable_sleep:
        job.cluster.engines.wake(("weights",))
    with job.clock.phase("broadcast"):
        job.version += 1
        push_weights(
            job.cluster.policy,
            job.cluster.engines,
            job.version,
            job.config.vllm.sync_backend or "shm",
            job.config.cluster,
        )


def finish(job: Job, kept: Sequence[RolloutGroup], report: StepReport) -> None:
    """Settle the step's prompts in the ledger and write the step down."""
    kept_ids = {group.group_id for group in kept}
    trained = [group.rollouts[0].prompt for group in report.groups if group.group_id in kept_ids]
    failed = [group.rollouts[0].prompt for group in report.groups if group.group_id not in kept_ids]
    move(job, trained, PromptState.TRAINED)
    move(job, failed, PromptState.FAILED)
    job.step += 1
    report.metrics |= job.clock.lap()
    job.tracker.log(job.step, report.metrics)
    job.tracker.store_rollouts(job.step, report.groups)


def move(job: Job, prompts: Sequence[Prompt], state: PromptState) -> None:
    """Tell the ledger where prompts of the current episode are now."""
    job.ledger.move(job.loader.episode, [prompt.prompt_id for prompt in prompts], state)


def export(job: Job, folder: Path) -> None:
    """Write the trained policy in Hugging Face format to the root of the run folder."""
    job.cluster.policy.save_hf(folder)

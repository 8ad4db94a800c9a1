"""The stages of a training step. Each takes the job and what the stage before it made."""

import logging
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from openrlhf.cluster.specs import GroupRequest
from openrlhf.config.outputs import critic_folder
from openrlhf.data.ledger import PromptState
from openrlhf.pipeline import bad_examples
from openrlhf.pipeline.batching import MicroBatchLimit, dispatch
from openrlhf.pipeline.collect import next_group
from openrlhf.pipeline.fate import fates
from openrlhf.pipeline.grading import grade
from openrlhf.pipeline.job import Job
from openrlhf.pipeline.length import response_limit
from openrlhf.pipeline.report import StepReport, write_down
from openrlhf.pipeline.sampling import filter_groups, move, sample_dynamically
from openrlhf.pipeline.sleep import engines_awake, model_awake
from openrlhf.pipeline.update import update_critic, update_policy
from openrlhf.pipeline.weights import push
from openrlhf.rl.advantages.compute import compute_advantages
from openrlhf.rl.advantages.registry import estimator
from openrlhf.rl.filtering import apply_ungraded_policy
from openrlhf.rl.metrics import finalize, rollout_metrics
from openrlhf.rl.packing import collate
from openrlhf.rl.shaping import shape_rewards
from openrlhf.rl.stale_tokens import mask_stale_tokens
from openrlhf.rollout.seeds import sample_seed
from openrlhf.types import Experience, Prompt, RolloutGroup, SamplingParams

logger = logging.getLogger(__name__)


def draw(job: Job) -> list[Prompt]:
    """The next prompts, at most rollout.batch_size; fewer at the end of an episode, none at the end of the run."""
    drawn = job.loader.draw()
    job.ledger.draw(job.loader.episode, [prompt.prompt_id for prompt in drawn])
    return drawn


def roll_out(job: Job, prompts: Sequence[Prompt], report: StepReport) -> list[RolloutGroup]:
    """Sample and score a group for every prompt with the policy's current weights, in the order of the draws.

    With dynamic filtering, prompts whose group is dropped are replaced, and the dropped groups come back too.
    """

    def ask(drawn: Sequence[Prompt]) -> list[GroupRequest]:
        n = job.config.rollout.n_samples_per_prompt
        return group_requests(job, drawn, n, training_params(job), draw=job.step)

    with job.clock.phase("generation"), engines_awake(job):
        if job.config.algo.dynamic_filtering_enable:
            report.groups = sample_dynamically(job, prompts, ask)
        else:
            move(job, prompts, PromptState.IN_FLIGHT)
            report.groups = generate(job, ask(prompts))
            move(job, prompts, PromptState.BUFFERED)
    judge(job, report)
    return report.groups


def training_params(job: Job) -> SamplingParams:
    """How training samples are drawn."""
    rollout = job.config.rollout
    return SamplingParams(temperature=rollout.temperature, top_p=rollout.top_p, max_tokens=rollout.max_new_tokens)


def judge(job: Job, report: StepReport) -> None:
    """Let the reward models grade what no other source has, and measure the groups."""
    report.metrics |= job.cluster.engines.lap()
    if job.cluster.reward is not None:
        with job.clock.phase("reward"):
            report.groups = grade(job, report.groups)
    sampled = sum(rollout.num_actions for group in report.groups for rollout in group.rollouts)
    cut = sum(group.rollouts[0].prompt.prompt_id in job.cut_prompts for group in report.groups)
    report.metrics |= {
        "rollout/tokens_generated": float(sampled),
        "rollout/prompt_truncated_rate": cut / len(report.groups),
    }


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


def generate(job: Job, requests: Sequence[GroupRequest]) -> list[RolloutGroup]:
    """Run the requests on engines that are awake; groups in the order of the requests."""
    job.cluster.engines.submit(requests, paused=job.config.train.full_determinism_enable)
    groups = [next_group(job) for _ in requests]
    by_id = {group.group_id: group for group in groups}
    return [by_id[request.group_id] for request in requests]


def keep(job: Job, groups: Sequence[RolloutGroup], report: StepReport) -> list[RolloutGroup]:
    """Leave out what has no verdict, as reward.ungraded says, or what dynamic filtering drops, and samples without a
    sampled token; then bad examples."""
    algo = job.config.algo
    if algo.dynamic_filtering_enable:
        result = filter_groups(job, groups)
    else:
        grouped = estimator(algo.advantage.estimator).grouped
        result = apply_ungraded_policy(groups, job.config.reward.ungraded, grouped)
    report.metrics |= finalize(result.metrics) | rollout_metrics(result.kept)
    kept = bad_examples.drop(job, result.kept, report)
    if not kept:
        reason = "its samples are bad examples" if result.kept else result.dropped[0].reason
        logger.warning(
            "step %d: none of %d prompts is left to train on; the first: %s", job.step + 1, len(groups), reason
        )
    return kept


def make_experience(job: Job, groups: Sequence[RolloutGroup], report: StepReport) -> Experience | None:
    """One padded batch with the logprobs and values that the advantages and the losses need; None for no groups."""
    if not groups:
        return None
    with job.clock.phase("make_experience"):
        experience = collate(groups)
        if job.config.train.mask_stale_tokens and job.config.train.async_enable:
            report.metrics["async/masked_token_rate"] = mask_stale_tokens(experience)
        limit = MicroBatchLimit.for_scoring(job.config.rollout, job.config.train, job.config.ds)
        rows = range(len(experience))
        cluster = job.cluster
        if needs_old_logprobs(job, experience):
            scored = dispatch(experience, rows, cluster.policy.world_size, limit)
            with model_awake(job, cluster.policy):
                experience.old_logprobs = scored.collect(cluster.policy.logprobs(scored.batches), experience)
        if cluster.critic is not None:
            scored = dispatch(experience, rows, cluster.critic.world_size, limit)
            with model_awake(job, cluster.critic):
                experience.values = scored.collect(cluster.critic.values(scored.batches), experience)
        if cluster.reference is not None:
            scored = dispatch(experience, rows, cluster.reference.world_size, limit)
            experience.ref_logprobs = scored.collect(cluster.reference.logprobs(scored.batches), experience)
        bad_examples.mark(job, groups, experience, report)
    return experience


def needs_old_logprobs(job: Job, experience: Experience) -> bool:
    """Whether the policy's logprobs before the update must be computed in a pass of their own.

    With a single optimiser step over the whole batch they are the step's own logprobs, exactly, so no pass is needed;
    KL in the reward needs them before the step in any case.
    """
    train, kl = job.config.train, job.config.algo.kl
    several_steps = train.max_epochs > 1 or len(np.unique(experience.sample_ids)) > train.batch_size
    return several_steps or (job.kl.coef > 0 and not kl.use_loss)


def learn(job: Job, experience: Experience | None, report: StepReport) -> None:
    """Rewards, advantages and optimiser steps; nothing where nothing is left."""
    if experience is None:
        return
    shape(job, experience, report)
    estimate_advantages(job, experience, report)
    if bad_examples.leave(job, experience):
        update(job, experience, report)


def shape(job: Job, experience: Experience, report: StepReport) -> None:
    """Length penalties, clipping and running normalisation of the rewards, those of turns in proportion."""
    limit = response_limit(job.config.rollout, job.config.data)
    shaped = shape_rewards(experience, job.config.reward, limit, job.normaliser)
    experience.rewards, experience.turn_rewards = shaped.rewards, shaped.turn_rewards
    report.metrics |= shaped.metrics


def estimate_advantages(job: Job, experience: Experience, report: StepReport) -> None:
    """Fill in advantages and returns."""
    algo = job.config.algo
    with job.clock.phase("make_experience"):
        mode = algo.bad_examples.advantage_mask
        result = compute_advantages(experience, algo.advantage, algo.kl, job.kl.coef, mode)
    experience.advantages, experience.returns = result.advantages, result.returns
    report.metrics |= result.metrics


def update(job: Job, experience: Experience, report: StepReport) -> None:
    """Train the critic, then the policy, which waits for the critic in its first `critic.freezing_steps` steps."""
    report.metrics |= update_critic(job, experience)
    if job.cluster.critic is None or job.step >= job.config.critic.freezing_steps:
        report.metrics |= update_policy(job, experience)
        report.policy_trained = True
        job.version += 1
        measured = report.metrics.get("rollout/kl", report.metrics.get("train/kl"))
        job.kl.update(measured, len(np.unique(experience.sample_ids)))  # a policy that stands still says nothing
    report.metrics["train/kl_coef"] = job.kl.coef


def settle(job: Job, kept: Sequence[RolloutGroup], experience: Experience | None, report: StepReport) -> None:
    """Tell the ledger what became of the step's prompts."""
    settled = fates(report.groups, kept, experience)
    for group in report.groups:
        prompt = group.rollouts[0].prompt
        # What dynamic filtering drops is settled when it drops it.
        if job.ledger.state(job.loader.episode, prompt.prompt_id) is PromptState.BUFFERED:
            move(job, [prompt], settled[group.group_id])


def publish(job: Job, kept: Sequence[RolloutGroup], experience: Experience | None, report: StepReport) -> None:
    """New weights to every engine, where there are new ones, and the step to the run folder."""
    try:
        if report.policy_trained:
            push(job)
    finally:  # whatever becomes of the push, the step is over: a resumed run goes on after it
        write_down(job, kept, experience, report)


def export(job: Job, folder: Path) -> None:
    """Write the trained policy in Hugging Face format to the root of the run folder, and the critic where asked."""
    with model_awake(job, job.cluster.policy):
        job.cluster.policy.save_hf(folder)
    if job.cluster.critic is not None and job.config.critic.save_value_network:
        with model_awake(job, job.cluster.critic):
            job.cluster.critic.save_hf(critic_folder(str(folder)))

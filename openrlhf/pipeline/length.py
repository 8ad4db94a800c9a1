"""How long a run is, in rollout batches and in optimiser steps, known before it starts."""

from dataclasses import dataclass
from math import ceil

from openrlhf.config.data import DataConfig
from openrlhf.config.rollout import RolloutConfig
from openrlhf.config.train import TrainConfig
from openrlhf.data.ledger import PromptLedger
from openrlhf.data.loader import PromptLoader


@dataclass(frozen=True, slots=True)
class RunLength:
    """`steps` counts rollout batches (what the logs call a step); `optimiser_steps` spans the LR schedule."""

    steps: int
    optimiser_steps: int
    frozen_steps: int = 0  # optimiser steps at the start in which only the critic is trained

    @property
    def policy_steps(self) -> int:
        """Optimiser steps of the policy."""
        return self.optimiser_steps - self.frozen_steps


def response_limit(rollout: RolloutConfig, data: DataConfig) -> int:
    """The most tokens that a response can have; what follows from lengths (penalties, constant aggregation) uses it."""
    return rollout.max_new_tokens or data.max_len


def run_length(num_prompts: int, rollout: RolloutConfig, train: TrainConfig, frozen_steps: int = 0) -> RunLength:
    """Length of a run whose every sample is trained on; the policy is not trained in the first `frozen_steps` steps.

    One episode is ceil(prompts / rollout.batch_size) steps, the last one short; each step of p prompts takes
    ceil(p * n / train.batch_size) optimiser steps per epoch. Filtering only makes a run shorter than this. An
    asynchronous run fills its batches over the ends of episodes: all of them together are cut up like one.
    """
    passes = 1 if train.async_enable else train.num_episodes
    per_pass = num_prompts * train.num_episodes // passes
    full, rest = divmod(per_pass, rollout.batch_size)
    steps_per_pass = full + (rest > 0)
    steps = steps_per_pass * passes
    if train.max_steps is not None:
        steps = min(steps, train.max_steps)

    def updates(prompts: int) -> int:
        return ceil(prompts * rollout.n_samples_per_prompt / train.batch_size) * train.max_epochs

    def updates_until(step: int) -> int:
        whole, last = divmod(step, steps_per_pass)
        short_steps = whole if rest else 0  # a cut-off last pass never reaches its short step
        return (whole * full + last) * updates(rollout.batch_size) + short_steps * updates(rest)

    return RunLength(steps, updates_until(steps), updates_until(min(max(frozen_steps, 0), steps)))


def resumed_steps(
    done: int, loader: PromptLoader, ledger: PromptLedger, rollout: RolloutConfig, train: TrainConfig
) -> int:
    """Steps of a run that goes on after `done` of them: these, and what is left of the data in batches of today's size.

    Left are the prompts that are drawn and not done with, and those that the loader still gives. With the flags of
    before these are as many steps as `run_length` counts, or fewer where filters have used prompts up.
    """
    unfinished = sum(episode < train.num_episodes for episode, _ in ledger.unfinished())
    in_episode = loader.remaining if loader.episode < train.num_episodes else 0
    later_episodes = max(0, train.num_episodes - loader.episode - 1)
    if train.async_enable:
        left = ceil((unfinished + in_episode + later_episodes * loader.prompts_per_episode) / rollout.batch_size)
    else:
        left = ceil((unfinished + in_episode) / rollout.batch_size) + later_episodes * loader.batches_per_episode
    return done + left if train.max_steps is None else min(done + left, train.max_steps)

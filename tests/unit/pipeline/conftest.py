"""A job whose processes are fakes; everything else is real."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from openrlhf.cluster.launch import Cluster
from openrlhf.config.optimiser import has_critic
from openrlhf.config.ppo import PPOConfig
from openrlhf.config.schema import nest
from openrlhf.data.ledger import PromptLedger
from openrlhf.data.loader import PromptLoader
from openrlhf.data.prompts import PromptSet
from openrlhf.pipeline import weights
from openrlhf.pipeline.job import Job
from openrlhf.pipeline.length import run_length
from openrlhf.pipeline.verdicts import VerdictWatch
from openrlhf.rl.kl import make_kl_controller
from openrlhf.rl.running_normaliser import RunningNormaliser
from openrlhf.track.tracker import RunTracker
from openrlhf.types import Prompt
from tests.fakes import FakeCriticGroup, FakeEngineGroup, FakeModelGroup, FakeRewardGroup

# 2 prompts per step, 4 samples each: a full step is one optimiser step of 8 samples.
BASE: dict[str, Any] = {
    "algo.advantage.estimator": "reinforce_baseline",
    "algo.kl.init_coef": 0.0,
    "rollout.batch_size": 2,
    "rollout.n_samples_per_prompt": 4,
    "rollout.micro_batch_size": 2,
    "rollout.max_new_tokens": 3,
    "train.batch_size": 8,
    "train.micro_batch_size": 3,
    "vllm.sync_backend": "shm",
}


def alternating(prompt: Prompt, index: int) -> float:
    """Half of a prompt's samples are right."""
    return float(index % 2)


@dataclass
class Rig:
    """A job, and what its fakes were asked to do, in order."""

    job: Job
    engines: FakeEngineGroup
    policy: FakeModelGroup
    critic: FakeCriticGroup | None
    log: list[Any] = field(default_factory=list)

    def rows(self) -> list[dict[str, float]]:
        """What was written to metrics.jsonl so far."""
        metrics = self.job.tracker._metrics
        return [] if metrics is None else metrics.rows


@pytest.fixture
def rig(tmp_path, monkeypatch) -> Callable[..., Rig]:
    """rig(changes, prompts=4, reward=...): a job with these flags changed."""

    def make(
        changes: dict[str, Any] | None = None,
        prompts: int = 4,
        reward: Callable[[Prompt, int], float | str | None] = alternating,
        eval_prompts: PromptSet | None = None,
    ) -> Rig:
        config = PPOConfig.model_validate(nest(BASE | (changes or {})))
        rows = PromptSet([Prompt(i, f"prompt {i}", str(i)) for i in range(prompts)])
        length = run_length(prompts, config.rollout, config.train, config.critic.freezing_steps)
        log: list[Any] = []
        critic = FakeCriticGroup(log) if has_critic(config) else None
        reward_models = FakeRewardGroup(log) if config.reward.models else None
        engines, policy = FakeEngineGroup(reward, log), FakeModelGroup(log)
        reference = FakeModelGroup(log, "reference") if config.algo.kl.init_coef > 0 else None

        def push(
            policy: Any, engines: FakeEngineGroup, version: int, backend: str, cluster: Any, only_stale: bool
        ) -> None:
            log.append(f"push {version} by {backend}" + (" to the stale" if only_stale else ""))
            engines.version, engines.stale = version, False

        monkeypatch.setattr(weights, "push_weights", push)
        job = Job(
            config=config,
            cluster=Cluster(policy, reference, engines, critic, reward_models),  # type: ignore[arg-type]
            loader=PromptLoader(rows, config.rollout.batch_size, config.train.seed, config.train.num_episodes),
            ledger=PromptLedger(prompts),
            kl=make_kl_controller(config.algo.kl),
            tracker=RunTracker(tmp_path / "run", config.logger, config, length.steps),
            length=length,
            eval_prompts=eval_prompts,
            normaliser=RunningNormaliser() if config.reward.normalize_enable else None,
            verdicts=VerdictWatch(config.reward.abort_after),
        )
        return Rig(job, engines, policy, critic, log)

    return make

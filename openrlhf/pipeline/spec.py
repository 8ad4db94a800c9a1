"""What each process of a run needs to know, out of the run's configuration."""

from openrlhf.cluster.specs import (
    ClusterSpec,
    CriticSpec,
    Device,
    EngineSpec,
    PolicySpec,
    ReferenceSpec,
    RewardSpec,
    SyncSpec,
)
from openrlhf.config.optimiser import has_critic
from openrlhf.config.ppo import PPOConfig
from openrlhf.pipeline.length import RunLength, response_limit


def cluster_spec(config: PPOConfig, length: RunLength) -> ClusterSpec:
    """The specs of all roles of a resolved config; ValueError for one that is not."""
    return ClusterSpec(
        policy=_policy(config, length),
        reference=_reference(config) if config.algo.kl.init_coef > 0 else None,
        engine=_engine(config),
        cluster=config.cluster,
        critic=_critic(config, length) if has_critic(config) else None,
        reward=_reward(config) if config.reward.models else None,
    )


def _device(config: PPOConfig) -> Device:
    if config.device == "auto":
        raise ValueError("cluster_spec takes a resolved config")
    return config.device


def _collective_timeout(config: PPOConfig) -> float:
    given = config.cluster.collective_timeout
    return config.cluster.train_timeout if given is None else given


def _policy(config: PPOConfig, length: RunLength) -> PolicySpec:
    vllm = config.vllm
    if not (vllm.sync_backend and vllm.dtype and vllm.num_engines):
        raise ValueError("cluster_spec takes a resolved config")
    receivers = vllm.num_engines * vllm.tensor_parallel_size
    return PolicySpec(
        actor=config.actor,
        ds=config.ds,
        train=config.train,
        algo=config.algo,
        temperature=config.rollout.temperature,
        device=_device(config),
        total_steps=max(length.policy_steps, 1),
        sync=SyncSpec(vllm.sync_backend, vllm.dtype, receivers, config.cluster.sync_timeout),
        collective_timeout=_collective_timeout(config),
        response_limit=response_limit(config.rollout, config.data),
        max_images=config.data.max_images_per_prompt,
    )


def _reference(config: PPOConfig) -> ReferenceSpec:
    return ReferenceSpec(
        ref=config.ref,
        ds=config.ds,
        train=config.train,
        temperature=config.rollout.temperature,
        device=_device(config),
        collective_timeout=_collective_timeout(config),
        max_images=config.data.max_images_per_prompt,
    )


def _critic(config: PPOConfig, length: RunLength) -> CriticSpec:
    return CriticSpec(
        critic=config.critic,
        ds=config.ds,
        train=config.train,
        loss_aggregation=config.actor.loss_aggregation,
        response_limit=response_limit(config.rollout, config.data),
        calibrated=config.reward.normalize_enable,
        device=_device(config),
        total_steps=max(length.optimiser_steps, 1),
        collective_timeout=_collective_timeout(config),
        gradient_checkpointing=config.actor.gradient_checkpointing_enable,
        gradient_checkpointing_reentrant=config.actor.gradient_checkpointing_reentrant,
    )


def _reward(config: PPOConfig) -> RewardSpec:
    models = config.reward.models
    return RewardSpec(
        models=models,
        weights=config.reward.model_weights or (1.0,) * len(models),
        reward=config.reward,
        ds=config.ds,
        train=config.train,
        policy_model=str(config.actor.model_name_or_path),
        data=config.data,
        device=_device(config),
        collective_timeout=_collective_timeout(config),
    )


def _engine(config: PPOConfig) -> EngineSpec:
    return EngineSpec(
        model_name_or_path=str(config.actor.model_name_or_path),
        vllm=config.vllm,
        data=config.data,
        reward=config.reward,
        device=_device(config),
        seed=config.train.seed,
        sync_timeout=config.cluster.sync_timeout,
        partial_rollout=config.train.partial_rollout_enable,
        agent_func_path=config.train.agent_func_path,
        env=config.env,
    )

"""The Ray actors: one process each, every one a thin shell around a class of another room.

Each imports its room inside its constructor: the driver that names these classes must not import vLLM or DeepSpeed.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import ray

from openrlhf.cluster.ports import free_port
from openrlhf.cluster.session import host_address
from openrlhf.cluster.specs import (
    CriticSpec,
    EngineSpec,
    GroupRequest,
    ModelSpec,
    PolicySpec,
    RankPlace,
    ReferenceSpec,
    RewardSpec,
)
from openrlhf.imports import HeavyImports
from openrlhf.types import MicroBatch, TransferManifest


class _Rank:
    """What every trainer process can say before its model loads."""

    def rendezvous(self) -> tuple[str, int]:
        """Host address and a free port for the process group, asked of rank 0."""
        return host_address(), free_port()

    def ping(self) -> None:
        """Answers once all earlier calls are done."""


class _TrainedRank(_Rank):
    """One rank of a model that is trained."""

    _trainer: Any

    def sleep(self) -> None:
        self._trainer.sleep()

    def wake(self) -> None:
        self._trainer.wake()

    def save_hf(self, folder: Path) -> None:
        self._trainer.save_hf(folder)

    def save_state(self, folder: Path) -> None:
        self._trainer.save(folder)

    def load_state(self, folder: Path) -> None:
        self._trainer.load(folder)


def _context(spec: ModelSpec, place: RankPlace) -> Any:
    from openrlhf.train.context import WorkerContext

    return WorkerContext(
        rank=place.rank,
        world_size=place.world_size,
        device=spec.device,
        master_addr=place.address,
        master_port=place.port,
        seed=spec.train.seed,
        timeout_s=spec.collective_timeout,
    )


@ray.remote
class PolicyActor(_TrainedRank):
    """One rank of the trained policy."""

    @HeavyImports()
    def load(self, spec: PolicySpec, place: RankPlace) -> None:
        from openrlhf.sync.make import make_sender
        from openrlhf.train.policy import PolicyTrainer

        self._trainer = PolicyTrainer(
            actor=spec.actor,
            ds=spec.ds,
            train=spec.train,
            algo=spec.algo,
            temperature=spec.temperature,
            context=_context(spec, place),
            total_steps=spec.total_steps,
            response_limit=spec.response_limit,
            max_images=spec.max_images,
        )
        self._sender = None
        if place.rank == 0 or spec.sync.backend == "ipc":  # CUDA IPC: each rank serves the engines on its own GPU
            self._sender = make_sender(
                spec.sync.backend,
                spec.sync.dtype,
                model_dtype=self._trainer.dtype,
                host=place.address,
                num_receivers=spec.sync.num_receivers,
                timeout=spec.sync.timeout,
            )

    def logprobs(self, batches: Sequence[MicroBatch]) -> list[np.ndarray]:
        return self._trainer.logprobs(batches)

    def train_step(self, batches: Sequence[MicroBatch], kl_coef: float) -> Any:
        return self._trainer.train_step(batches, kl_coef)

    def describe_weights(self, version: int) -> TransferManifest | None:
        """Rank 0 answers the manifest; the other ranks only take part in gathering the weights."""
        return self._with_weights(version, "describe")

    def send_weights(self, version: int) -> TransferManifest | None:
        return self._with_weights(version, "send")

    def _with_weights(self, version: int, call: str) -> TransferManifest | None:
        weights = self._trainer.synced_weights()
        if self._sender is None:
            for _ in weights:  # gathering sharded weights is collective
                pass
            return None
        manifest = self._sender.send(weights, version) if call == "send" else self._sender.describe(weights, version)
        return replace(manifest, partial=self._trainer.syncs_partly)

    def leave_transfers(self) -> None:
        if self._sender is not None:
            self._sender.close()

    def release_weights(self) -> None:
        if self._sender is not None:
            self._sender.release()


@ray.remote
class ReferenceActor(_Rank):
    """One rank of the frozen reference policy."""

    @HeavyImports()
    def load(self, spec: ReferenceSpec, place: RankPlace) -> None:
        from openrlhf.train.reference import ReferenceModel

        self._model = ReferenceModel(
            ref=spec.ref,
            ds=spec.ds,
            temperature=spec.temperature,
            context=_context(spec, place),
            max_images=spec.max_images,
        )

    def logprobs(self, batches: Sequence[MicroBatch]) -> list[np.ndarray]:
        return self._model.logprobs(batches)


@ray.remote
class CriticActor(_TrainedRank):
    """One rank of the critic."""

    @HeavyImports()
    def load(self, spec: CriticSpec, place: RankPlace) -> None:
        from openrlhf.rl.losses.aggregation import Aggregation
        from openrlhf.train.critic import CriticTrainer

        length = spec.response_limit if spec.loss_aggregation == "constant" else None
        self._trainer = CriticTrainer(
            critic=spec.critic,
            ds=spec.ds,
            train=spec.train,
            aggregation=Aggregation(spec.loss_aggregation, length),
            calibrated=spec.calibrated,
            context=_context(spec, place),
            total_steps=spec.total_steps,
            gradient_checkpointing=spec.gradient_checkpointing,
            gradient_checkpointing_reentrant=spec.gradient_checkpointing_reentrant,
        )

    def values(self, batches: Sequence[MicroBatch]) -> list[np.ndarray]:
        return self._trainer.values(batches)

    def train_step(self, batches: Sequence[MicroBatch]) -> Any:
        return self._trainer.train_step(batches)


@ray.remote
class RewardActor(_Rank):
    """One rank of the frozen reward models."""

    @HeavyImports()
    def load(self, spec: RewardSpec, place: RankPlace) -> None:
        from openrlhf.models.tokenizer import end_ids, load_tokenizer
        from openrlhf.reward.model import load_reward_models
        from openrlhf.train.frozen import frozen_backend

        context = _context(spec, place)
        context.apply()
        tokenizer = load_tokenizer(spec.policy_model)
        self._models = load_reward_models(
            spec.models,
            spec.weights,
            ds=spec.ds,
            data=spec.data,
            device=spec.device,
            calibrated=spec.reward.normalize_enable,
            hold=lambda model, runner: frozen_backend(model, spec.ds, spec.reward.offload, context, runner=runner),
            policy_tokenizer=tokenizer,
            policy_ends=end_ids(spec.policy_model, tokenizer),
        )

    def score(self, batches: Sequence[MicroBatch]) -> list[np.ndarray]:
        return self._models.score(batches)


@ray.remote
class EngineActor:
    """One vLLM engine with the executor and the reward source of its samples."""

    async def start(self, spec: EngineSpec, index: int) -> None:
        with HeavyImports():
            from openrlhf.env.env_config import environments_of
            from openrlhf.env.task_rewards import TaskRewards
            from openrlhf.models.load import load_config
            from openrlhf.models.tokenizer import load_tokenizer
            from openrlhf.models.vision.make import vision_processor
            from openrlhf.reward.make import make_reward
            from openrlhf.rollout.environments import Environments
            from openrlhf.rollout.generator import RolloutGenerator
            from openrlhf.rollout.user_agent import make_executor
            from openrlhf.rollout.vllm.args import VllmEngineArgs
            from openrlhf.rollout.vllm.environment import silence_import

            silence_import()
            from openrlhf.rollout.vllm.engine import VllmEngine

        model = spec.model_name_or_path
        vision = vision_processor(model, load_config(model), spec.data.max_images_per_prompt)
        template = None if vision is None else vision.chat_template
        tokenizer = load_tokenizer(model, template, rendered=spec.data.apply_chat_template)
        self._is_agent = spec.agent_func_path is not None
        self._executor = make_executor(spec.agent_func_path)
        self._environments = Environments(environments_of(spec.env), spec.env.max_episodes)
        self._in_environments = 0  # samples since the last release
        self._reward = make_reward(spec.reward) if spec.reward.is_given and not self._is_agent else None
        self._tasks = TaskRewards(spec.env, tokenizer)
        self._engine = VllmEngine(
            VllmEngineArgs(
                model_path=model,
                vllm=spec.vllm,
                device=spec.device,
                max_model_len=spec.data.max_len,
                seed=spec.seed + index,
                engine_index=index,
                sync_timeout=spec.sync_timeout,
                keep_in_flight=spec.partial_rollout,
                image_tokens=vision,
            )
        )
        await self._engine.start()
        self._generator = RolloutGenerator(
            engine=self._engine,
            executor=self._executor,
            reward=self._reward,
            tokenizer=tokenizer,
            max_length=spec.data.max_len,
            tolerate_failures=self._is_agent,
            environments=self._environments,
            max_generations=spec.env.max_generations,
            generation_timeout=spec.env.request_timeout,
            tasks=self._tasks,
        )

    async def run_group(self, request: GroupRequest) -> Any:
        seeds = request.seeds or (None,) * request.n
        if request.prompt.env_func is not None:
            self._in_environments += request.n
        return await self._generator.run_group(request.prompt, request.group_id, request.n, request.sampling, seeds)

    async def hold(self) -> None:
        """Hold back the samples' requests. An agent or an environment may fail before its first, or wait for a place,
        so such samples are not waited for."""
        if not self._is_agent:
            self._engine.hold()

    async def release(self, expected: int) -> None:
        """Start the held requests once all `expected` of them are there."""
        if not self._is_agent:
            apart, self._in_environments = self._in_environments, 0
            await self._engine.release(expected - apart)

    async def busy_seconds(self) -> tuple[float, float]:
        """Seconds so far with at least one sample generating, and with at least one being scored."""
        return self._generator.generate_seconds, self._generator.reward_seconds

    async def receive_weights(self, manifest: TransferManifest) -> None:
        await self._engine.receive_weights(manifest)

    async def sleep(self) -> None:
        await self._engine.sleep()

    async def wake(self, tags: Sequence[str] | None) -> None:
        await self._engine.wake(tags)

    async def shutdown(self) -> None:
        await self._executor.close()
        await self._environments.close()
        await self._tasks.close()
        if self._reward is not None:
            await self._reward.close()
        self._engine.shutdown()

"""What an evaluation reads, opened before any engine starts; every fault found is reported."""

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from openrlhf.config.evaluate import EvaluateConfig
from openrlhf.config.ppo import PPOConfig
from openrlhf.config.reward import RewardConfig
from openrlhf.config.train import TrainConfig
from openrlhf.data.prompts import PromptSet, build_prompts
from openrlhf.env.env_config import environments_of
from openrlhf.interfaces import RewardSource
from openrlhf.models.heads import check_heads
from openrlhf.models.load import load_config
from openrlhf.models.tokenizer import load_tokenizer
from openrlhf.pipeline.problems import Problems
from openrlhf.pipeline.tasks import check_tasks, with_tasks
from openrlhf.reward.make import make_reward
from openrlhf.rollout.agent import AgentExecutorBase
from openrlhf.rollout.user_agent import make_executor


@dataclass(frozen=True, slots=True)
class EvaluationInputs:
    tokenizer: Any
    prompts: PromptSet
    executor: AgentExecutorBase
    reward: RewardSource | None  # None: tasks or the agent give every score


def open_inputs(config: EvaluateConfig) -> EvaluationInputs:
    """Tokenizer, prompts, agent and reward source of a checked config.

    Raises:
        ConfigError: one line for each input that cannot be used.
    """
    problems = Problems()
    attempt = problems.attempt
    agent = config.train.agent_func_path
    executor = attempt(lambda: make_executor(agent))
    sources = config.source()
    reward = attempt(lambda: make_reward(sources)) if sources.is_given else None
    if config.actor.model_name_or_path is not None:
        model = str(config.actor.model_name_or_path)
        attempt(lambda: check_heads(model, load_config(model), config.vllm.tensor_parallel_size))
    name = str(config.actor.model_name_or_path or config.endpoint.tokenizer)
    tokenizer = attempt(lambda: load_tokenizer(name))
    prompts = attempt(lambda: _prompts(config, tokenizer, sources)) if tokenizer is not None else None
    for environment in sorted({prompt.env_func for prompt in prompts or () if prompt.env_func is not None}):
        attempt(lambda environment=environment: _probe(config, environment))  # type: ignore[misc]  # bound at once
    if problems or prompts is None or executor is None:
        raise problems.error()
    return EvaluationInputs(tokenizer, prompts, executor, reward)


def _prompts(config: EvaluateConfig, tokenizer: Any, reward: RewardConfig) -> PromptSet:
    asked, data = config.eval, config.data
    prompts = build_prompts(
        str(asked.dataset),
        tokenizer=tokenizer,
        split=asked.split,
        input_key=data.input_key,
        label_key=data.label_key,
        input_template=data.input_template,
        apply_chat_template=data.apply_chat_template,
        max_samples=asked.max_samples,
        seed=config.train.seed,
    )
    if asked.env_func is not None:
        prompts = PromptSet([replace(prompt, env_func=asked.env_func) for prompt in prompts])
    sources = PPOConfig(reward=reward, train=TrainConfig(agent_func_path=config.train.agent_func_path))
    prompts = with_tasks(prompts, sources)
    check_tasks(sources, prompts, None)
    return prompts


def _probe(config: EvaluateConfig, environment: str) -> None:
    """Make the environment once, so that what it lacks is told now."""
    executor = environments_of(config.env)(environment)
    asyncio.run(executor.close())

"""What a run reads, opened and looked at in seconds, before any process starts; every fault found is reported."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from transformers import PretrainedConfig

from openrlhf.config.data import DataConfig
from openrlhf.config.optimiser import has_critic
from openrlhf.config.ppo import PPOConfig
from openrlhf.config.schema import given
from openrlhf.data.budget import cut_prompts
from openrlhf.data.errors import DataError, listing
from openrlhf.data.images import check_images_fit
from openrlhf.data.prompts import PromptSet, evaluation_prompts, training_prompts
from openrlhf.data.source import columns_of
from openrlhf.env.env_config import environments_of
from openrlhf.env.errors import EnvError
from openrlhf.interfaces import Executor, ImageTokens
from openrlhf.models.heads import check_heads
from openrlhf.models.load import load_config
from openrlhf.models.tokenizer import load_tokenizer
from openrlhf.models.vision.make import vision_processor
from openrlhf.models.vision.processor import VisionProcessor
from openrlhf.pipeline.best_metric import check_best_metric
from openrlhf.pipeline.problems import Problems
from openrlhf.pipeline.reference_images import check_reference
from openrlhf.pipeline.tasks import check_tasks, with_tasks
from openrlhf.reward.make import make_reward
from openrlhf.rollout.errors import AgentError
from openrlhf.rollout.openai_server.executor import OpenAIServerAgentExecutor
from openrlhf.rollout.prefix_stability import warn_about_rewritten_history
from openrlhf.rollout.user_agent import load_agent
from openrlhf.types import Prompt

logger = logging.getLogger(__name__)

# Flags of the episodes in an environment; the other flags of `env` serve verification too.
_EPISODES = ("env.max_episodes", "env.max_generations", "env.max_retries", "env.request_timeout", "env.code.")


@dataclass(frozen=True, slots=True)
class Inputs:
    """The prompts of a run. `cut`: ids of the training prompts that are too long for the context."""

    prompts: PromptSet
    eval_prompts: PromptSet | None
    cut: frozenset[int]


def check_inputs(config: PPOConfig) -> Inputs:
    """Open models' configs, tokenizer, datasets and reward source of a resolved config.

    Raises:
        ConfigError: one line for each input that cannot be used.
    """
    problems = Problems()
    attempt = problems.attempt
    actor = str(config.actor.model_name_or_path)
    configs = {name: attempt(lambda name=name: load_config(name)) for name in _models(config)}  # type: ignore[misc]
    if (model := configs[actor]) is not None:
        attempt(lambda: check_heads(actor, model, config.vllm.tensor_parallel_size))
    vision = attempt(lambda: _vision(config, model))
    agent = config.train.agent_func_path
    executor = None
    if agent is not None:
        executor = attempt(lambda: load_agent(agent))
    elif config.reward.is_given:
        attempt(lambda: make_reward(config.reward))
    template = None if vision is None else vision.chat_template
    rendered = config.data.apply_chat_template
    tokenizer = attempt(lambda: load_tokenizer(actor, template, rendered=rendered))
    if tokenizer is not None and isinstance(executor, OpenAIServerAgentExecutor):
        attempt(lambda: executor.check(tokenizer))
    prompts = eval_prompts = None
    if tokenizer is not None and (vision is not None or config.data.max_images_per_prompt == 0):
        seed = config.train.seed
        prompts = attempt(lambda: training_prompts(config.data, tokenizer, seed, vision))
        eval_prompts = attempt(lambda: evaluation_prompts(config.eval, config.data, tokenizer, seed, vision))
    prompts = None if prompts is None else with_tasks(prompts, config)
    eval_prompts = None if eval_prompts is None else with_tasks(eval_prompts, config)
    if prompts is not None:
        attempt(lambda: check_tasks(config, prompts, eval_prompts))
        if eval_prompts is not None:
            metric, n = config.ckpt.best_metric_key, config.eval.n_samples_per_prompt
            attempt(lambda: check_best_metric(metric, eval_prompts, n))
        if vision is not None:
            attempt(lambda: _check_images(config, prompts, eval_prompts or (), tokenizer, vision, executor))
    if config.algo.kl.init_coef > 0 and (reference := configs.get(str(config.ref.model_name_or_path))) is not None:
        shown = (*(prompts or ()), *(eval_prompts or ()))
        attempt(lambda: check_reference(config, reference, vision, shown, agent=agent is not None))
    for name in _environments(prompts, eval_prompts):
        attempt(lambda name=name: environments_of(config.env)(name))  # type: ignore[misc]  # bound at once
    if problems or prompts is None:
        raise problems.error()
    _warn_about_idle_environments(config, _environments(prompts, eval_prompts))
    if agent is not None and vision is None:  # the check's messages are strings
        warn_about_rewritten_history(tokenizer)
    cut = _warn_about_cut(config, prompts, tokenizer, "prompts")
    if eval_prompts is not None:
        _warn_about_cut(config, eval_prompts, tokenizer, "evaluation prompts")
    return Inputs(prompts, eval_prompts, cut)


def _vision(config: PPOConfig, model: PretrainedConfig | None) -> VisionProcessor | None:
    """How the actor takes images; None for a text model."""
    if model is None:
        return None
    return vision_processor(str(config.actor.model_name_or_path), model, config.data.max_images_per_prompt)


def _check_images(
    config: PPOConfig,
    training: Sequence[Prompt],
    evaluation: Sequence[Prompt],
    tokenizer: Any,
    vision: ImageTokens,
    executor: Executor | None,
) -> None:
    """Whether images fit, and whoever runs their prompts takes them."""
    if not any(prompt.images for prompt in (*training, *evaluation)):
        _check_image_key(config)
    budget = config.data.max_len - (config.rollout.max_new_tokens or 1)
    check_images_fit(training, tokenizer, budget, vision, f"--data.prompt_dataset {config.data.prompt_dataset}")
    check_images_fit(evaluation, tokenizer, budget, vision, f"--eval.dataset {config.eval.dataset}")
    prompts = (*training, *evaluation)
    named = [prompt.env_func for prompt in prompts if prompt.images and prompt.env_func is not None]
    if named:
        raise EnvError(f"environment {named[0]}: {len(named)} of its prompts have images, and it takes text only")
    shown = sum(bool(prompt.images) for prompt in prompts)
    if shown and isinstance(executor, OpenAIServerAgentExecutor):
        agent = config.train.agent_func_path
        raise AgentError(f"agent {agent}: {shown} prompts have images, and the OpenAI-style server takes text only")


def _check_image_key(config: PPOConfig) -> None:
    """Where no prompt has images: a column that was named has to be in one of the datasets. Raises DataError."""
    key = config.data.image_key
    if config.data.max_images_per_prompt == 0 or key == DataConfig.model_fields["image_key"].default:
        return
    columns = columns_of(str(config.data.prompt_dataset), config.data.prompt_split)
    if config.eval.dataset is not None:
        columns |= columns_of(config.eval.dataset, config.eval.split)
    if not any(key in own for own in columns.values()):
        name, own = next(iter(columns.items()))
        others = f", nor has any other of the {len(columns)} datasets" if len(columns) > 1 else ""
        raise DataError(f"{name}: no column {key!r} (--data.image_key){others}; its columns are {listing(own)}")


def _environments(*sets: PromptSet | None) -> list[str]:
    """The environments that prompts name, once each."""
    names = [prompt.env_func for prompts in sets if prompts is not None for prompt in prompts]
    return list(dict.fromkeys(name for name in names if name is not None))


def _warn_about_idle_environments(config: PPOConfig, names: Sequence[str]) -> None:
    idle = [path for path in sorted(given(config)) if path.startswith(_EPISODES)]
    if idle and not names:
        shown = ", ".join(f"--{path}" for path in idle)
        logger.warning("%s: no effect, since no prompt names an environment (env_func)", shown)


def _models(config: PPOConfig) -> list[str]:
    """Every model that the run loads, once."""
    names = [config.actor.model_name_or_path, *config.reward.models]
    if config.algo.kl.init_coef > 0:
        names.append(config.ref.model_name_or_path)
    if has_critic(config):
        names.append(config.critic.model_name_or_path)
    return list(dict.fromkeys(name for name in names if name is not None))


def _warn_about_cut(config: PPOConfig, prompts: PromptSet, tokenizer: Any, what: str) -> frozenset[int]:
    """Count the prompts that will lose their beginning and say so once; their ids."""
    limit, response = config.data.max_len, config.rollout.max_new_tokens
    budget = limit - (response or 1)
    lengths = cut_prompts(prompts, tokenizer, budget)
    if lengths:
        left = f"--rollout.max_new_tokens {response} leaves" if response else "a response of one token leaves"
        logger.warning(
            "%d of %d %s have more than the %d tokens that %s of --data.max_len %d (the longest %d): only their last "
            "tokens are used; raise --data.max_len to keep them whole",
            len(lengths),
            len(prompts),
            what,
            budget,
            left,
            limit,
            max(lengths.values()),
        )
    return frozenset(lengths)

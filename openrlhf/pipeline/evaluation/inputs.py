"""What an evaluation reads, opened before any engine starts; every fault found is reported."""

import asyncio
from dataclasses import dataclass, replace
from typing import Any

from transformers import PretrainedConfig

from openrlhf.config.evaluate import EvaluateConfig
from openrlhf.config.ppo import PPOConfig
from openrlhf.config.reward import RewardConfig
from openrlhf.config.train import TrainConfig
from openrlhf.data.errors import DataError
from openrlhf.data.prompts import PromptSet, build_prompts
from openrlhf.data.source import load_rows
from openrlhf.env.env_config import environments_of
from openrlhf.interfaces import RewardSource
from openrlhf.models.errors import ModelError
from openrlhf.models.heads import check_heads
from openrlhf.models.load import load_config
from openrlhf.models.tokenizer import load_tokenizer
from openrlhf.models.vision.architectures import architecture_of, has_vision
from openrlhf.models.vision.make import vision_processor
from openrlhf.models.vision.processor import MARK, VisionProcessor
from openrlhf.pipeline.evaluation.summary import ALL
from openrlhf.pipeline.problems import Problems
from openrlhf.pipeline.tasks import check_tasks, with_tasks
from openrlhf.reward.make import make_reward
from openrlhf.rollout.agent import AgentExecutorBase
from openrlhf.rollout.user_agent import make_executor

_IMAGES = ("images", "image")  # columns: what --data.image_key of training is by default, and the other usual name
_IMAGE_IDS = ("image_token_id", "image_token_index")
_SHOWN = 60  # characters of a prompt in a message
_TEXT_ONLY = (
    "this command shows a model text only; evaluate them in a training run, by its --eval.dataset and "
    "--data.max_images_per_prompt"
)


@dataclass(frozen=True, slots=True)
class EvaluationInputs:
    tokenizer: Any
    prompts: PromptSet
    executor: AgentExecutorBase
    reward: RewardSource | None  # None: tasks or the agent give every score
    vision: VisionProcessor | None  # of a vision-language model with an entry; it is shown no images


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
    model = attempt(lambda: _model(config))
    if model is not None and has_vision(model):
        attempt(lambda: _refuse_images(config))
    name = str(config.actor.model_name_or_path or config.endpoint.tokenizer)
    vision = None
    if model is not None and architecture_of(model) is not None:  # another one is run on text by vLLM alone
        vision = attempt(lambda: vision_processor(name, model, max_images=0))
    template = None if vision is None else vision.chat_template
    rendered = config.data.apply_chat_template
    tokenizer = attempt(lambda: load_tokenizer(name, template, rendered=rendered))
    prompts = attempt(lambda: _prompts(config, tokenizer, sources, vision)) if tokenizer is not None else None
    if prompts is not None and model is not None and has_vision(model) and vision is None:
        attempt(lambda: _refuse_placeholders(config, prompts, tokenizer, model))
    for environment in sorted({prompt.env_func for prompt in prompts or () if prompt.env_func is not None}):
        attempt(lambda environment=environment: _probe(config, environment))  # type: ignore[misc]  # bound at once
    if problems or prompts is None or executor is None:
        raise problems.error()
    return EvaluationInputs(tokenizer, prompts, executor, reward, vision)


def _model(config: EvaluateConfig) -> PretrainedConfig | None:
    """The config of the model; of a served one where it lies beside the tokenizer.

    ModelError where a model that is to run here cannot be read, or not be split as asked.
    """
    name = config.actor.model_name_or_path
    if name is not None:
        model = load_config(name)
        check_heads(name, model, config.vllm.tensor_parallel_size)
        return model
    try:
        return load_config(str(config.endpoint.tokenizer))
    except ModelError:  # a tokenizer alone will do
        return None


def _refuse_images(config: EvaluateConfig) -> None:
    """DataError where rows have images, which the model would take but is not shown here."""
    asked = config.eval
    rows = load_rows(
        str(asked.dataset), required=(), optional=_IMAGES, split=asked.split, max_samples=asked.max_samples
    )
    for column in _IMAGES:
        shown = sum(bool(row.values.get(column)) for row in rows)
        if shown:
            raise DataError(f"{asked.dataset}: {shown} of {len(rows)} rows have {column!r}, and {_TEXT_ONLY}")


def _refuse_placeholders(config: EvaluateConfig, prompts: PromptSet, tokenizer: Any, model: PretrainedConfig) -> None:
    """DataError where a prompt shows an image. A model with an entry has its processor say so, naming the row."""
    ids = [found for name, found in model.to_dict().items() if name in _IMAGE_IDS and found is not None]
    marks = (MARK, *tokenizer.convert_ids_to_tokens(ids))
    for prompt in prompts:
        for mark in marks:
            if mark in prompt.text:
                where = f"{config.eval.dataset}: prompt {prompt.prompt_id} ({prompt.text[:_SHOWN]!r})"
                raise DataError(f"{where} has {mark!r}, the place of an image, and {_TEXT_ONLY}")


def _prompts(config: EvaluateConfig, tokenizer: Any, reward: RewardConfig, vision: VisionProcessor | None) -> PromptSet:
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
        vision=vision,
    )
    if asked.env_func is not None:
        prompts = PromptSet([replace(prompt, env_func=asked.env_func) for prompt in prompts])
    sources = PPOConfig(reward=reward, train=TrainConfig(agent_func_path=config.train.agent_func_path))
    prompts = with_tasks(prompts, sources)
    datasources = {prompt.datasource for prompt in prompts}
    if ALL in datasources and len(datasources) > 1:
        raise DataError(f"{asked.dataset}: a datasource is called {ALL!r}, the summary's name for all of them together")
    check_tasks(sources, prompts, None)
    return prompts


def _probe(config: EvaluateConfig, environment: str) -> None:
    """Make the environment once, so that what it lacks is told now."""
    executor = environments_of(config.env)(environment)
    asyncio.run(executor.close())

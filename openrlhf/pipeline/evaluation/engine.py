"""The engine of an evaluation: vLLM inside this process, or a served endpoint."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

from openrlhf.config.evaluate import EvaluateConfig
from openrlhf.interfaces import ImageTokens, LLMEngine
from openrlhf.rollout.endpoint import EndpointEngine
from openrlhf.rollout.vllm.args import VllmEngineArgs
from openrlhf.rollout.vllm.environment import engine_environment, silence_import


@asynccontextmanager
async def started_engine(
    config: EvaluateConfig, tokenizer: Any, vision: ImageTokens | None
) -> AsyncIterator[LLMEngine]:
    """The engine of a resolved config, ended with the block. `vision`: of a model with images, so that it samples no
    tokens of them."""
    if config.endpoint.url is not None:
        served = EndpointEngine(
            config.endpoint.url,
            tokenizer,
            model=config.endpoint.model,
            key=config.endpoint.key,
            max_concurrent=config.endpoint.max_concurrent,
            timeout=config.endpoint.timeout,
        )
        try:
            await served.start()
            yield served
        finally:
            await served.close()
        return
    device: Literal["cpu", "cuda"] = "cuda" if config.device == "cuda" else "cpu"
    threads = max(1, len(os.sched_getaffinity(0)) // config.vllm.tensor_parallel_size)
    os.environ.update(engine_environment(device, threads))  # before vLLM is imported
    silence_import()
    from openrlhf.rollout.vllm.engine import VllmEngine

    engine = VllmEngine(engine_arguments(config, device, vision))
    try:
        await engine.start()
        yield engine
    finally:
        engine.shutdown()


def engine_arguments(
    config: EvaluateConfig, device: Literal["cpu", "cuda"], vision: ImageTokens | None
) -> VllmEngineArgs:
    return VllmEngineArgs(
        model_path=str(config.actor.model_name_or_path),
        vllm=config.engine(),
        device=device,
        max_model_len=config.data.max_len,
        seed=config.train.seed,
        image_tokens=vision,
    )

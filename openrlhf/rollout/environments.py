"""The environments of a run's prompts: made when the first prompt of theirs comes, bounded for the whole process."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any

from openrlhf.interfaces import Executor, ImageTokens, LLMEngine
from openrlhf.types import Completion, SamplingParams


class LimitedEngine:
    """An LLMEngine in front of another one, which gets at most so many requests at the same time, each for so long."""

    def __init__(self, engine: LLMEngine, most: int | None = None, timeout_s: float | None = None) -> None:
        """None: no limit."""
        self._engine = engine
        self._places: AbstractAsyncContextManager[None] = nullcontext() if most is None else asyncio.Semaphore(most)
        self._timeout_s = timeout_s

    @property
    def image_tokens(self) -> ImageTokens | None:
        return self._engine.image_tokens

    async def generate(
        self, prompt_token_ids: Sequence[int], sampling_params: SamplingParams, images: Sequence[Any] | None = None
    ) -> Completion:
        """TimeoutError, and the request is aborted, after `timeout_s` seconds; waiting for a place does not count."""
        async with self._places, asyncio.timeout(self._timeout_s):
            return await self._engine.generate(prompt_token_ids, sampling_params, images)


class Environments:
    """Executors by the name that a prompt's `env_func` says."""

    def __init__(self, make: Callable[[str], Executor], max_episodes: int | None = None) -> None:
        """`make`: the executor of a name. `max_episodes`: at the same time, of all environments together."""
        self._make = make
        self._executors: dict[str, Executor] = {}
        self._places = None if max_episodes is None else asyncio.Semaphore(max_episodes)

    @asynccontextmanager
    async def episode(self, name: str) -> AsyncIterator[Executor]:
        """The executor of an environment, once there is a place for one more episode."""
        if name not in self._executors:
            self._executors[name] = self._make(name)
        if self._places is None:
            yield self._executors[name]
            return
        async with self._places:
            yield self._executors[name]

    async def close(self) -> None:
        for executor in {id(executor): executor for executor in self._executors.values()}.values():
            await executor.close()
        self._executors = {}

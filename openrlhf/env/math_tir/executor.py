"""The executor of math_tir_async and math_tir_generate: text and Python in turns, until an end or the budget.

The prompt goes in, the trajectory comes out, and the verdict is left to the task's reward. Tokens in, tokens out:
sampled ids stay as they are; results of programs have mask 0.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from openrlhf.config.env import EnvConfig
from openrlhf.env.code_tool import CodeTool
from openrlhf.env.math_tir.episode import TirEpisode
from openrlhf.env.math_tir.turns import End, Run, Turns
from openrlhf.interfaces import LLMEngine
from openrlhf.types import Completion, SamplingParams, Trajectory

MAX_PAUSE_S = 30.0


class NoGeneration(Exception):
    """The engine did not finish an action of an episode, however often it was asked. One line."""


class MathTirExecutor:
    """Implements interfaces.Executor; one object serves all samples of an engine."""

    def __init__(
        self,
        env: EnvConfig,
        tool: CodeTool | None = None,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """`tool`, `pause`: for tests. Raises EnvError where nothing can run code."""
        self._env = env
        self._tool = tool or CodeTool(env)
        self._pause = pause

    async def execute(
        self,
        prompt: str,
        label: str,
        sampling_params: SamplingParams,
        max_length: int,
        hf_tokenizer: Any,
        llm_engine: LLMEngine,
        images: Sequence[Any] | None = None,
    ) -> Trajectory:
        """Run one episode. NoGeneration leaves its sample without a verdict."""
        code = self._env.code
        episode = TirEpisode(prompt, sampling_params, max_length, hf_tokenizer)
        generate = _Generate(llm_engine, self._env, self._pause, images)
        turns, sound = Turns(code.rounds), list[str]()
        while (request := episode.request(turns.stops)) is not None:
            text = episode.act(await generate(episode.tokens.ids, request))
            step = End() if episode.truncated else turns.take(text)
            if isinstance(step, End):
                break
            if isinstance(step, Run):
                result = await self._tool.run(step.code, sound)
                if not result.error:
                    sound.append(step.code)
                if not episode.observe(result, code.result_tokens):
                    break
        return episode.trajectory()

    async def close(self) -> None:
        await self._tool.close()


class _Generate:
    """The generations of one episode: each within its time, repeated where it was aborted or late.

    What the episode has so far is not lost by that: only the one action is sampled again. The repeats are counted over
    the whole episode.
    """

    def __init__(
        self,
        engine: LLMEngine,
        env: EnvConfig,
        pause: Callable[[float], Awaitable[None]],
        images: Sequence[Any] | None,
    ) -> None:
        self._engine, self._env, self._pause, self._images = engine, env, pause, images
        self._failures = 0

    async def __call__(self, ids: list[int], request: SamplingParams) -> Completion:
        """NoGeneration once `env.max_retries` repeats are used up."""
        while (completion := await self._once(ids, request)) is None:
            if self._failures >= self._env.max_retries:
                limit = self._env.request_timeout
                late = "" if limit is None else f" or took longer than {limit:g} s"
                raise NoGeneration(f"{self._failures + 1} generations of one episode were aborted{late}")
            await self._pause(min(2.0**self._failures, MAX_PAUSE_S))
            self._failures += 1
        return completion

    async def _once(self, ids: list[int], request: SamplingParams) -> Completion | None:
        try:
            completion = await self._engine.generate(ids, request, self._images)
        except TimeoutError:  # the engine of environments keeps --env.request_timeout
            return None
        return None if completion.finish_reason == "aborted" else completion


def math_tir(env: EnvConfig) -> MathTirExecutor:
    """What the registry makes of `math_tir_async` and `math_tir_generate`: one form, by either name."""
    return MathTirExecutor(env)

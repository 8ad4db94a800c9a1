"""Agents and tokenizers for tests of multi-turn episodes; the scripted engine is in tests/fakes.py."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from openrlhf.rollout.agent import AgentInstanceBase
from openrlhf.rollout.multi_turn import MultiTurnAgentExecutor
from openrlhf.types import SamplingParams, Trajectory
from tests.fakes import FakeTokenizer, ScriptedEngine

Step = Callable[[Any, dict[str, Any]], Mapping[str, Any] | Awaitable[Mapping[str, Any]]]


def agent(step: Step, *, observe: str | None = None) -> type[AgentInstanceBase]:
    """An agent class from a function of (instance, states). Instances have `steps` (counted before the call) and
    `seen`, the states of every call. `observe`: the observation instead of the prompt.
    """

    class ScriptedAgent(AgentInstanceBase):
        def __init__(self) -> None:
            self.steps = 0
            self.seen: list[dict[str, Any]] = []

        async def reset(self, states: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
            self.seen.append(states)
            return {"observation": states["observation"] if observe is None else observe}

        async def step(self, states: dict[str, Any], **kwargs: Any) -> Any:
            self.steps += 1
            self.seen.append(states)
            answer = step(self, states)
            return await answer if isinstance(answer, Awaitable) else answer

    return ScriptedAgent


async def play(
    executor: MultiTurnAgentExecutor,
    engine: ScriptedEngine,
    *,
    prompt: str = "ab",
    label: str = "L",
    max_tokens: int | None = 8,
    max_length: int = 100,
    sampling: SamplingParams | None = None,
    tokenizer: Any = None,
    images: Sequence[Any] | None = None,
) -> Trajectory:
    """Run one episode. `sampling` replaces `max_tokens`."""
    sampling = sampling or SamplingParams(max_tokens=max_tokens)
    return await executor.execute(
        prompt, label, sampling, max_length, tokenizer or FakeTokenizer(), engine, images=images
    )


async def within(seconds: float, awaitable: Awaitable[Any]) -> Any:
    """The result, or a failed test: a hang must not eat the whole session."""
    async with asyncio.timeout(seconds):
        return await awaitable


class MergingTokenizer(FakeTokenizer):
    """Writes every `xy` as one token, though a policy may also sample `x` and `y`: encode(decode(ids)) != ids."""

    MERGED = 0x10FFFF

    def __call__(self, text: str, add_special_tokens: bool = True) -> dict[str, list[int]]:
        return super().__call__(text.replace("xy", chr(self.MERGED)), add_special_tokens)

    def decode(self, token_ids: Sequence[int], *args: Any, **kwargs: Any) -> str:
        return super().decode(token_ids, *args, **kwargs).replace(chr(self.MERGED), "xy")


class ChatTokenizer(MergingTokenizer):
    """With a chat template: `<role>content<eos>` per message, tools in front, the answer opened by `<assistant>`.

    `<eos>` in text is the end token. `drop_reasoning`: the template cuts earlier answers after `</think>`, as those of
    many reasoning models do.
    """

    chat_template = "in Python, below"

    def __init__(self, *, drop_reasoning: bool = False) -> None:
        self.drop_reasoning = drop_reasoning

    def __call__(self, text: str, add_special_tokens: bool = True) -> dict[str, list[int]]:
        return super().__call__(text.replace("<eos>", "\0"), add_special_tokens)

    def apply_chat_template(
        self,
        messages: Sequence[Mapping[str, Any]],
        tools: Any = None,
        tokenize: bool = False,
        add_generation_prompt: bool = False,
    ) -> str:
        assert not tokenize
        if messages[0]["role"] == "tool":
            raise RuntimeError("a tool speaks first")
        last = len(messages) - 1
        text = "".join(f"[{tool['function']['name']}]" for tool in tools or ())
        text += "".join(self._message(message, number < last) for number, message in enumerate(messages))
        return text + ("<assistant>" if add_generation_prompt else "")

    def _message(self, message: Mapping[str, Any], earlier: bool) -> str:
        content = message["content"]
        if self.drop_reasoning and earlier and message["role"] == "assistant":
            content = content.rpartition("</think>")[2]
        calls = "".join(f"<tool_call>{call['function']}</tool_call>" for call in message.get("tool_calls", ()))
        return f"<{message['role']}>{content}{calls}<eos>\n"


def quick_client(base_url: str) -> Any:
    """The official client without certificates, whose loading takes most of a short test."""
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient

    http = DefaultAsyncHttpxClient(verify=False)
    return AsyncOpenAI(base_url=base_url, api_key="unused", max_retries=0, timeout=20, http_client=http)

"""A reward function for TRL's GRPOTrainer and its relatives.

    trainer = GRPOTrainer(model=..., reward_funcs=create_trl_reward(env, dg), ...)

TRL calls it with the completions of a batch and takes one number per completion; None leaves a completion out of that
reward function's part of the reward.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from deepgym.extract import extract_code
from deepgym.models import BatchResult, Environment

logger = logging.getLogger(__name__)

Completion = str | Sequence[dict[str, Any]]  # text, or chat messages with role and content


class BatchGym(Protocol):
    """The part of DeepGym that grades many answers at once, from any thread."""

    def run_batch(self, env: Environment, answers: Sequence[str]) -> BatchResult: ...


def create_trl_reward(env: Environment, dg: BatchGym) -> Callable[..., list[float | None]]:
    """A function `(completions, **other columns) -> rewards`; None where there is no verdict, never 0."""

    def reward(completions: Sequence[Completion], **_: Any) -> list[float | None]:
        batch = dg.run_batch(env, [extract_code(response_text(completion)) for completion in completions])
        for result in batch:
            if not result.has_verdict:
                logger.warning("%s: a sample has no verdict (%s) and gets None", env.name, result.error_type)
        return [result.score if result.has_verdict else None for result in batch]

    reward.__name__ = reward.__qualname__ = f"deepgym_{env.name}"  # TRL's metrics carry it
    return reward


def response_text(completion: Completion) -> str:
    """The text of a completion; of a chat, the last message of the assistant.

    TypeError for what is neither: a score of 0 would hide that the trainer gave no answer.
    """
    if isinstance(completion, str):
        return completion
    if not isinstance(completion, Sequence):
        raise TypeError(f"a completion is {completion!r}; it must be a text or a list of chat messages")
    for message in reversed(completion):
        if not isinstance(message, Mapping) or "role" not in message:
            raise TypeError(f"a completion's message is {message!r}; it must be a dict with role and content")
        if message["role"] == "assistant":
            return _text(message.get("content"))
    return ""


def _text(content: Any) -> str:
    """Content is a text, or parts of which some are text; a message that only calls a tool has none."""
    if isinstance(content, str):
        return content
    parts = [part.get("text") for part in content or () if isinstance(part, dict) and part.get("type") == "text"]
    return "".join(text for text in parts if isinstance(text, str))

"""What a user writes to make an agent: an environment (`AgentInstanceBase`), or a whole executor (`AgentExecutorBase`).

    from openrlhf.utils.agent import AgentInstanceBase, MultiTurnAgentExecutor

docs/agents.md tells the contract; `multi_turn.py` runs instances.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from openrlhf.interfaces import LLMEngine
from openrlhf.types import SamplingParams, Trajectory


class AgentInstanceBase(ABC):
    """The environment of one episode. Every episode gets an instance of its own, made without arguments."""

    @abstractmethod
    async def reset(self, states: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Open the episode.

        Args:
            states: `observation` (the prompt's text), `label`, `images` (a list, often empty), `sampling_params`.

        Returns:
            {"observation": str}: the text that the policy sees first. It is tokenised once, without special tokens.
        """

    @abstractmethod
    async def step(self, states: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """Answer one action of the policy.

        Args:
            states: `observation_text` (all text before the action), `action_text` (what the sampled tokens add
                to it, special tokens kept), `label`, `images`, `sampling_params` (the episode's own object),
                `finish_reason` ("stop" or "length"), `turn` (counted from 0).

        Returns:
            A mapping with `rewards` and `done`, and as needed `scores`, `environment_feedback`, `sampling_params`,
            `environment_images`, `extra_logs`: see `step_result.py`.
        """

    async def close(self) -> None:  # noqa: B027  (optional to override)
        """The episode is over, however it ended; give back what `reset` opened."""


class AgentExecutorBase(ABC):
    """Implements interfaces.Executor: runs whole samples. One object serves all samples of an engine, many at once.

    Tokens in, tokens out: the ids of a `Completion` go into the trajectory as they are (`EpisodeTokens` does that);
    text is never tokenised a second time.
    """

    @abstractmethod
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
        """Run one sample; an exception leaves it without a verdict. `max_length`: tokens of the whole trajectory."""

    async def close(self) -> None:  # noqa: B027  (optional to override)
        """The engine shuts down; give back what the executor opened."""

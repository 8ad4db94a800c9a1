"""The public agent API under its documented path.

`MultiTurnAgentExecutor` runs an `AgentInstanceBase` per sample, `OpenAIServerAgentExecutor` a program that talks to an
OpenAI-style address; `AgentExecutorBase` leaves the whole episode to its subclass, which builds a `Trajectory` with
`EpisodeTokens`; `read_image` makes the images that it takes. docs/agents.md is the guide.
"""

from openrlhf.env.episode.tokens import EpisodeTokens
from openrlhf.images import read_image
from openrlhf.prompt_tokens import prompt_ids
from openrlhf.rollout.agent import AgentExecutorBase, AgentInstanceBase
from openrlhf.rollout.multi_turn import MultiTurnAgentExecutor
from openrlhf.rollout.openai_server.executor import OpenAIServerAgentExecutor
from openrlhf.rollout.single_turn import SingleTurnExecutor as SingleTurnAgentExecutor
from openrlhf.types import Completion, RewardOutcome, SamplingParams, Segment, Trajectory

__all__ = [
    "AgentExecutorBase",
    "AgentInstanceBase",
    "Completion",
    "EpisodeTokens",
    "MultiTurnAgentExecutor",
    "OpenAIServerAgentExecutor",
    "RewardOutcome",
    "SamplingParams",
    "Segment",
    "SingleTurnAgentExecutor",
    "Trajectory",
    "prompt_ids",
    "read_image",
]

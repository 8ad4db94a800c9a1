"""A multi-turn agent: guess an answer, hear whether it was right, try again, three times at most.

    python3 -m openrlhf.cli.train_ppo_ray --train.agent_func_path examples/python/agent_func.py \
        --data.input_key prompt --data.label_key label ...

An answer is right if it contains the label. docs/agents.md explains what `reset` and `step` get and return.
"""

from typing import Any

import torch

from openrlhf.utils.agent import AgentInstanceBase, MultiTurnAgentExecutor

MAX_TURNS = 3


class AgentInstance(AgentInstanceBase):
    """The environment of one episode."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.turn = 0

    async def reset(self, states: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        self.turn = 0
        return {"observation": states["observation"]}

    async def step(self, states: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        self.turn += 1
        right = states["label"] in states["action_text"]
        reward = torch.tensor(float(right))
        return {
            "rewards": reward,
            "scores": reward,
            "environment_feedback": "\n\nHuman: That is wrong, try again.\n\nAssistant: ",
            "done": right or self.turn == MAX_TURNS,
            "sampling_params": states["sampling_params"],
            "extra_logs": {"solved_at_once": float(right and self.turn == 1)},
        }


class AgentExecutor(MultiTurnAgentExecutor):
    """What the trainer makes, without arguments, once per engine."""

    def __init__(self) -> None:
        super().__init__(AgentInstance)

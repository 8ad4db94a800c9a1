"""A multi-turn agent that shows pictures: after a wrong answer the policy may look again, at a larger detail.

    python3 -m openrlhf.cli.train_ppo_ray --train.agent_func_path examples/python/vlm_multiturn_agent.py \
        --data.max_images_per_prompt 2 ...

Feedback holds one `<image>` for each picture in `environment_images`; docs/vision.md tells what happens to them. An
answer is right if it contains the label. The second try is worth half as much.
"""

from typing import Any

import torch

from openrlhf.utils.agent import AgentInstanceBase, MultiTurnAgentExecutor

MAX_TURNS = 2
FEEDBACK = " wrong look again at <image> assistant : "


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
        reward = torch.tensor(float(right) / self.turn)
        first = states["images"][:1]
        return {
            "rewards": reward,
            "scores": torch.tensor(float(right)),
            "environment_feedback": FEEDBACK if first else " wrong look again : ",
            "environment_images": [middle(image.decode()) for image in first],
            "done": right or self.turn == MAX_TURNS,
            "extra_logs": {"right_at_once": float(right and self.turn == 1)},
        }


def middle(image: Any) -> Any:
    """The middle three quarters of a PIL image, as large as the whole."""
    width, height = image.size
    box = (width // 8, height // 8, width - width // 8, height - height // 8)
    return image.crop(box).resize((width, height))


class AgentExecutor(MultiTurnAgentExecutor):
    """What the trainer makes, without arguments, once per engine."""

    def __init__(self) -> None:
        super().__init__(AgentInstance)

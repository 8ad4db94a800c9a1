"""The rewards by task: what a label's `task` is graded with. A new one is a folder beside this file and a line here.

    async def my_reward(sample: TaskSample, tools: TaskTools) -> Mapping[str, float | None]:
        return {"rewards": 1.0, "answer_rewards": 1.0}

`task.py` tells what the reward sees, docs/tasks.md what it may answer. Functions of the older form, `(prompt, response,
label, finish_reason, ...)`, may stand here too (`legacy.py`).
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from openrlhf.env.errors import unknown
from openrlhf.env.logic.kk import check_kk_label, kk_reward
from openrlhf.env.logic.zebralogic import check_zebralogic_label, zebralogic_reward
from openrlhf.env.math.reward import check_math_label, math_reward, math_tir_reward
from openrlhf.env.synlogic.reward import check_synlogic_label, synlogic_reward
from openrlhf.env.task import TaskSample
from openrlhf.env.tools import TaskTools

TaskReward = Callable[[TaskSample, TaskTools], Awaitable[Mapping[str, Any]]]
LabelCheck = Callable[[Mapping[str, Any]], None]

REWARD_CONFIG: dict[str, TaskReward | Callable[..., Any]] = {
    "math": math_reward,
    "math_tir": math_tir_reward,
    "kk": kk_reward,
    "zebralogic": zebralogic_reward,
    "synlogic": synlogic_reward,
}

# Optional: raises EnvError for a label that the task cannot grade; called when the data is loaded.
LABEL_CHECKS: dict[str, LabelCheck] = {
    "math": check_math_label,
    "math_tir": check_math_label,
    "kk": check_kk_label,
    "zebralogic": check_zebralogic_label,
    "synlogic": check_synlogic_label,
}


def check_task(name: str) -> None:
    """EnvError, listing the known ones, where no task has that name."""
    if name not in REWARD_CONFIG:
        raise unknown("task (openrlhf/env/reward_config.py)", name, REWARD_CONFIG)

"""Grades samples by the task that their prompt names."""

import asyncio
import dataclasses
import math
from collections.abc import Callable
from typing import Any

from openrlhf.config.env import EnvConfig
from openrlhf.env.errors import EnvError
from openrlhf.env.filter_config import FILTER_FN_CONFIG, REWARD_FAIL
from openrlhf.env.label import read_label
from openrlhf.env.legacy import task_filter, task_reward
from openrlhf.env.reward_config import REWARD_CONFIG, check_task
from openrlhf.env.task import REWARD, FilterSample, TaskSample
from openrlhf.env.tools import TaskTools
from openrlhf.env.verdict import outcome, read_numbers
from openrlhf.faults import describe, is_ctrl_c
from openrlhf.types import Prompt, RewardOutcome, Segment, Trajectory


class TaskRewards:
    """One per engine, for all samples of all tasks."""

    def __init__(self, env: EnvConfig, tokenizer: Any, tools: TaskTools | None = None) -> None:
        """`tools` None: made from the flags."""
        self._tokenizer = tokenizer
        self._special_tokens = special_tokens(tokenizer)
        self._tools = tools or TaskTools(env)
        self._rewards: dict[str, Callable[..., Any]] = {}

    async def score(self, prompt: Prompt, trajectory: Trajectory, response: str, max_tokens: int) -> RewardOutcome:
        """The verdict on a finished sample of a prompt that names a task.

        Args:
            response: text after the prompt. max_tokens: the most that the response could have had.

        Raises:
            EnvError: no such task, or its reward raised or answered in a wrong form.
        """
        task = str(prompt.task)
        sample = self._sample(prompt, trajectory, response, max_tokens)
        try:
            raw = await self._reward(task)(sample, self._tools)
        except EnvError:
            raise
        except BaseException as error:  # a reward is somebody's code; what is no Exception would end the event loop
            if is_ctrl_c(error) or _is_cancelled():
                raise
            raise EnvError(f"task {task}: its reward raised {describe(error)}") from error
        numbers = read_numbers(raw, task)
        if self._fails(task, sample, numbers):
            failed = outcome(numbers | {REWARD: math.nan}, task)
            return dataclasses.replace(failed, reason=f"task {task}: its verifiers failed")
        return outcome(numbers, task)

    async def close(self) -> None:
        await self._tools.close()

    def _reward(self, task: str) -> Callable[..., Any]:
        if task not in self._rewards:
            check_task(task)
            self._rewards[task] = task_reward(task, REWARD_CONFIG[task])
        return self._rewards[task]

    def _fails(self, task: str, sample: TaskSample, numbers: dict[str, float]) -> bool:
        function = FILTER_FN_CONFIG.get(f"{task}_{REWARD_FAIL}")
        if function is None:
            return False
        truncated = sample.finish_reason == "length"
        seen = FilterSample(sample.label, numbers, sample.num_tokens, sample.max_tokens, truncated)
        return task_filter(f"{task}_{REWARD_FAIL}", function)(seen)

    def _sample(self, prompt: Prompt, trajectory: Trajectory, response: str, max_tokens: int) -> TaskSample:
        return TaskSample(
            prompt=prompt.text,
            response=response,
            label=read_label(prompt.label),
            finish_reason="length" if trajectory.truncated else "stop",
            num_tokens=response_tokens(trajectory.segments),
            max_tokens=max_tokens,
            eos=self._tokenizer.eos_token or "",
            special_tokens=self._special_tokens,
            facts=trajectory.facts,
            count_tokens=lambda text: len(self._tokenizer(text, add_special_tokens=False)["input_ids"]),
        )


def special_tokens(tokenizer: Any) -> tuple[str, ...]:
    """How a tokenizer writes the tokens that are no text; some are marked as such without a role of their own."""
    marked = [token.content for token in tokenizer.added_tokens_decoder.values() if token.special]
    return tuple(dict.fromkeys([*tokenizer.all_special_tokens, *marked]))


def response_tokens(segments: tuple[Segment, ...]) -> int:
    """Tokens of a sample from its first action on, the environment's between them too; of its last segment."""
    if not segments:
        return 0
    actions = segments[-1].action_mask
    return len(actions) - int(actions.argmax()) if actions.any() else 0


def _is_cancelled() -> bool:
    """Whether somebody asked this sample to end; a cancellation that the reward raises by itself is its fault."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0

"""Which prompts are graded by the task that they name (`openrlhf/env/reward_config.py`), and which by the run's source.

A label that is a JSON object with `uuid`, `env_func` or `task` decides for itself; the task may then stand beside it,
in a column `task`. Beside any other label such a column counts only where nothing else gives rewards: many data sets
have a column of that name.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace

from openrlhf.config.ppo import PPOConfig
from openrlhf.data.prompts import PromptSet
from openrlhf.env.check import check_prompts
from openrlhf.env.env_config import GRADES_ITSELF
from openrlhf.env.filter_config import EXP_FILTER, FILTER_FN_CONFIG
from openrlhf.env.label import read_label
from openrlhf.env.reward_config import REWARD_CONFIG
from openrlhf.reward.errors import RewardError
from openrlhf.types import Prompt

logger = logging.getLogger(__name__)

_DECIDES = ("uuid", "env_func", "task")


def with_tasks(prompts: PromptSet, config: PPOConfig) -> PromptSet:
    """The prompts, without the tasks that do not count."""
    if not has_source(config):
        return prompts
    settled = [_settled(prompt) for prompt in prompts]
    left = [old.task for old, new in zip(prompts, settled, strict=True) if old.task != new.task]
    if any(task in REWARD_CONFIG for task in left):
        logger.warning(
            "the column 'task' of %d prompts has no effect: their labels name no task, and %s gives rewards",
            len(left),
            _source(config),
        )
    return PromptSet(settled) if left else prompts


def check_tasks(config: PPOConfig, prompts: PromptSet, eval_prompts: PromptSet | None) -> None:
    """Look at all names and labels, and whether every sample will get a reward.

    Raises:
        EnvError: a name that no registry holds, or a label that its task cannot grade.
        RewardError: prompts that nothing grades.
    """
    everything = [*prompts, *(eval_prompts or ())]
    check_prompts(prompts)
    check_prompts(eval_prompts or ())
    _refuse_nobodys(config, everything)
    if config.train.agent_func_path is not None:
        _warn_about_agent(everything)
    elif has_source(config) and all(prompt.task is not None for prompt in everything):
        logger.warning("%s gives no rewards: every prompt names a task, which grades it", _source(config))
    _warn_about_filters(config, everything)


def has_source(config: PPOConfig) -> bool:
    """Whether the flags name something that gives rewards."""
    return config.train.agent_func_path is not None or config.reward.is_given


def _source(config: PPOConfig) -> str:
    if config.train.agent_func_path is not None:
        return "--train.agent_func_path"
    return "--reward.model_name_or_path" if config.reward.models else "--reward.remote_url"


def _refuse_nobodys(config: PPOConfig, prompts: Sequence[Prompt]) -> None:
    """An agent grades the episodes that it runs, and none of an environment's; a source of rewards grades all."""
    agent = config.train.agent_func_path is not None
    if config.reward.is_given and not agent:
        return
    taskless = [prompt for prompt in prompts if prompt.task is None and prompt.env_func not in GRADES_ITSELF]
    alone = sum(prompt.env_func is None for prompt in taskless)
    if alone and not agent:
        raise RewardError(
            "--reward.remote_url is missing: a Python file with reward_func, or an http address; "
            f"{alone} of {len(prompts)} prompts name no task (docs/tasks.md) that would grade them"
        )
    inside = [prompt.env_func for prompt in taskless if prompt.env_func is not None]
    if inside:
        raise RewardError(
            f"{len(inside)} of {len(prompts)} prompts name the environment {', '.join(sorted(set(inside)))}, which "
            f'does not grade its episodes, and no task that would; give their labels one ("task": "math_tir"; known: '
            f"{', '.join(sorted(REWARD_CONFIG))})"
            + ("" if agent else ", or give --reward.remote_url")
            + ", or name an "
            "environment that grades itself in GRADES_ITSELF (openrlhf/env/env_config.py)"
        )


def _warn_about_agent(prompts: Sequence[Prompt]) -> None:
    """An agent's own outcome goes before the task of a row (docs/tasks.md)."""
    run = [prompt for prompt in prompts if prompt.env_func is None]
    named = sum(prompt.task is not None for prompt in run)
    if not run:
        logger.warning("--train.agent_func_path runs no episode: every prompt names an environment")
    elif named:
        logger.warning(
            "%d of %d prompts that --train.agent_func_path runs name a task, which grades them only where the agent "
            "gives no outcome of its own",
            named,
            len(run),
        )


def _settled(prompt: Prompt) -> Prompt:
    decides = prompt.task is None or any(key in read_label(prompt.label) for key in _DECIDES)
    return prompt if decides else replace(prompt, task=None)


def _warn_about_filters(config: PPOConfig, prompts: Sequence[Prompt]) -> None:
    if not config.algo.bad_examples.filter_enable:
        return
    without = {str(prompt.task) for prompt in prompts if f"{prompt.task}_{EXP_FILTER}" not in FILTER_FN_CONFIG}
    if len(without) == len({str(prompt.task) for prompt in prompts}):
        logger.warning("--algo.bad_examples.filter_enable has no effect: no prompt names a task with filters")

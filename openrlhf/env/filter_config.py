"""The filters by task and kind. A new task is a line here; one without filters has no bad examples.

    {task}_sample_filter_fn   FilterSample -> whether it is a good sample; only counted
    {task}_exp_filter_fn      FilterSample -> whether it is a bad example (--algo.bad_examples.*)
    {task}_reward_fail_fn     FilterSample -> whether it has no verdict, because its verifiers failed

Functions of the older form, with `exp`, `sample`, `args`, may stand here too (`legacy.py`).
"""

from collections.abc import Callable
from typing import Any

from openrlhf.env.logic.filters import logic_exp_filter, logic_reward_fail, logic_sample_filter
from openrlhf.env.math.filters import math_exp_filter, math_reward_fail, math_sample_filter, math_tir_exp_filter
from openrlhf.env.task import FilterSample

TaskFilter = Callable[[FilterSample], bool]

SAMPLE_FILTER, EXP_FILTER, REWARD_FAIL = "sample_filter_fn", "exp_filter_fn", "reward_fail_fn"


def filters_of(
    task: str, sample_filter: Callable[..., Any], exp_filter: Callable[..., Any], reward_fail: Callable[..., Any]
) -> dict[str, Callable[..., Any]]:
    """The three entries of a task."""
    return {
        f"{task}_{SAMPLE_FILTER}": sample_filter,
        f"{task}_{EXP_FILTER}": exp_filter,
        f"{task}_{REWARD_FAIL}": reward_fail,
    }


FILTER_FN_CONFIG: dict[str, TaskFilter | Callable[..., Any]] = {
    **filters_of("math", math_sample_filter, math_exp_filter, math_reward_fail),
    **filters_of("math_tir", math_sample_filter, math_tir_exp_filter, math_reward_fail),
    **filters_of("kk", logic_sample_filter, logic_exp_filter, logic_reward_fail),
    **filters_of("zebralogic", logic_sample_filter, logic_exp_filter, logic_reward_fail),
    **filters_of("synlogic", logic_sample_filter, logic_exp_filter, logic_reward_fail),
}

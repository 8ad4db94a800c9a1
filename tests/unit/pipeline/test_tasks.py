"""Which prompts their task grades, and what is refused when the data is loaded."""

import json
import logging

import pytest

from openrlhf.config.ppo import PPOConfig
from openrlhf.config.schema import nest
from openrlhf.data.prompts import PromptSet
from openrlhf.env.errors import EnvError
from openrlhf.pipeline import tasks
from openrlhf.pipeline.tasks import check_tasks, with_tasks
from openrlhf.reward.errors import RewardError
from openrlhf.types import Prompt

OBJECT = json.dumps({"uuid": "a", "gold_ans": "7"})
SOURCE = {"reward.remote_url": "http://localhost:5000/get_reward"}


def prompts(*rows: tuple[str, str | None]) -> PromptSet:
    return PromptSet([Prompt(i, f"prompt {i}", label, task=task) for i, (label, task) in enumerate(rows)])


def config(flags=None) -> PPOConfig:
    return PPOConfig.model_validate(nest(flags or {}))


def test_a_label_with_a_uuid_decides_also_beside_another_source(caplog):
    given = prompts((OBJECT, "math"))
    assert with_tasks(given, config(SOURCE)) is given
    with caplog.at_level(logging.WARNING):
        check_tasks(config(SOURCE), given, None)
    assert "--reward.remote_url gives no rewards: every prompt names a task" in caplog.text


def test_a_bare_column_counts_where_nothing_else_gives_rewards():
    given = prompts(("7", "math"))
    assert with_tasks(given, config()) is given
    check_tasks(config(), given, None)


@pytest.mark.parametrize("task", ["math", "summarise"])
def test_a_bare_column_does_not_take_the_place_of_another_source(task, caplog):
    with caplog.at_level(logging.WARNING):
        settled = with_tasks(prompts(("7", task)), config(SOURCE))
    assert settled[0].task is None
    assert ("the column 'task' of 1 prompts has no effect" in caplog.text) is (task == "math")
    check_tasks(config(SOURCE), settled, None)


def test_prompts_that_nothing_grades_are_refused():
    with pytest.raises(RewardError, match=r"--reward.remote_url is missing: .* 1 of 3 prompts name no task"):
        check_tasks(config(), prompts((OBJECT, "math"), ("7", None)), prompts((OBJECT, "math")))


def test_an_unknown_task_is_refused_with_the_known_ones():
    with pytest.raises(EnvError, match="'maths'; known: kk, math, math_tir"):
        check_tasks(config(), prompts((OBJECT, "maths")), None)
    with pytest.raises(EnvError, match="'maths'"):
        check_tasks(config(), prompts((OBJECT, "math")), prompts((OBJECT, "maths")))


def test_filters_that_no_prompt_has_are_said_to_be_idle(caplog):
    flags = SOURCE | {"algo.bad_examples.filter_enable": True}
    with caplog.at_level(logging.WARNING):
        check_tasks(config(flags), prompts((OBJECT, "math"), ("7", None)), None)
    assert "filter_enable" not in caplog.text
    with caplog.at_level(logging.WARNING):
        check_tasks(config(flags), prompts(("7", None)), None)
    assert "--algo.bad_examples.filter_enable has no effect: no prompt names a task with filters" in caplog.text


AGENT = {"train.agent_func_path": "agent.py"}


def inside(label: str, task: str | None, env_func: str | None = "math_tir_async") -> PromptSet:
    return PromptSet([Prompt(0, "prompt", label, task=task, env_func=env_func)])


@pytest.mark.parametrize("flags", [{}, AGENT])
def test_an_environments_rows_without_anything_that_grades_them_are_refused_by_its_name(flags, monkeypatch):
    with pytest.raises(RewardError, match=r"1 of 1 prompts name the environment math_tir_async, .* no task that would"):
        check_tasks(config(flags), inside(OBJECT, None), None)
    check_tasks(config(flags), inside(OBJECT, "math_tir"), None)
    check_tasks(config(SOURCE), inside(OBJECT, None), None)
    monkeypatch.setattr(tasks, "GRADES_ITSELF", {"math_tir_async"})
    check_tasks(config(flags), inside(OBJECT, None), None)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (inside(OBJECT, "math", None), "1 of 1 prompts that --train.agent_func_path runs name a task, which grades"),
        (inside("7", None, None), None),
        (inside(OBJECT, "math_tir"), "--train.agent_func_path runs no episode: every prompt names an environment"),
    ],
)
def test_what_an_agents_own_outcome_does_to_tasks_is_said(given, said, caplog):
    with caplog.at_level(logging.WARNING):
        check_tasks(config(AGENT), given, None)
    assert (said in caplog.text) if said else not caplog.records

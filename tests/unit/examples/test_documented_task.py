"""The task of docs/tasks.md, added as it says, grades and filters; and what the page lists is what there is."""

import re
from pathlib import Path

from openrlhf.config.env import EnvConfig
from openrlhf.config.schema import flags
from openrlhf.config.variables import VARIABLES
from openrlhf.env import env_config, filter_config, reward_config
from openrlhf.env.filter_config import filters_of
from openrlhf.env.synlogic.sources import REASONING_GYM, SYNLOGIC
from openrlhf.env.task_filters import FilterVerdict, filter_verdict
from openrlhf.env.task_rewards import TaskRewards
from openrlhf.rollout.single_turn import single_turn_segment
from openrlhf.types import Prompt, Rollout, Trajectory
from tests.fakes import FakeTokenizer, completion
from tests.unit.env.samples import tools

PAGE = (Path(__file__).parents[3] / "docs/tasks.md").read_text(encoding="utf-8")
TASK, LINES = (block for block in re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))


async def test_a_task_of_your_own_is_a_folder_and_three_lines(monkeypatch):
    for module, name in ((reward_config, "REWARD_CONFIG"), (filter_config, "FILTER_FN_CONFIG")):
        monkeypatch.setattr(module, name, dict(getattr(module, name)))
    names = {
        "filters_of": filters_of,
        "make_my_env": lambda env: None,
        "REWARD_CONFIG": (rewards := {}),
        "FILTER_FN_CONFIG": (filters := {}),
        "ENV_GENERATE_CONFIG": (environments := {}),
    }
    exec(TASK + LINES, names)
    assert len([line for line in LINES.splitlines() if not line.startswith("#")]) == 3
    assert set(environments) == {"my_env"}
    assert set(filters) <= {f"my_task_{kind}" for kind in ("sample_filter_fn", "exp_filter_fn", "reward_fail_fn")}
    for name, reward in rewards.items():
        monkeypatch.setitem(reward_config.REWARD_CONFIG, name, reward)
        monkeypatch.setattr("openrlhf.env.task_rewards.REWARD_CONFIG", reward_config.REWARD_CONFIG)
    monkeypatch.setattr("openrlhf.env.task_filters.FILTER_FN_CONFIG", filters)

    prompt = Prompt(0, "What is 3+4?", '{"uuid": "a", "gold_ans": "7"}', task="my_task")
    found = []
    for text, truncated in (("it is 7", False), ("it is 8", False), ("it is 8", True)):
        trajectory = Trajectory((single_turn_segment([5], completion(text)),), truncated)
        scorer = TaskRewards(EnvConfig(), FakeTokenizer(), tools())
        outcome = await scorer.score(prompt, trajectory, text + "<eos>", 100)
        rollout = Rollout("g", "g/0", prompt, trajectory.segments, outcome, truncated)
        found.append((outcome.reward, outcome.score, filter_verdict(rollout, 100)))
    assert found == [
        (1.0, 1.0, FilterVerdict(good=True, bad=False)),
        (0.0, 0.0, FilterVerdict(good=False, bad=False)),
        (-0.1, 0.0, FilterVerdict(good=False, bad=True)),
    ]


def test_the_page_lists_what_there_is():
    listed = PAGE.partition("Of reasoning-gym's own names these work:")[2].partition("## Verifiers")[0]
    assert set(re.findall(r"`(\w+)`", listed)) == REASONING_GYM
    for name, generator in SYNLOGIC.items():
        assert f"`{name}`" in PAGE
        assert f"`{generator}`" in PAGE
    for task in reward_config.REWARD_CONFIG:
        assert f"| `{task}` |" in PAGE
    assert env_config.ENV_GENERATE_CONFIG.keys() >= set(re.findall(r"env_func\\\": \\\"(\w+)", PAGE))


def test_flags_and_variables_of_the_page_belong_together():
    rows = re.findall(r"^\| `--([\w.]+)` \| `(\w+)` \|", PAGE, re.MULTILINE)
    assert len(rows) >= 12
    assert all(VARIABLES[variable] == flag for flag, variable in rows)
    named = set(re.findall(r"`?--((?:env|algo)\.[\w.]+)", PAGE))
    assert named <= set(flags())

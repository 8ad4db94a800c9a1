"""The example with feedback: whole episodes of its agent in the real sandbox, with a scripted policy."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest

from openrlhf.types import SamplingParams
from tests.fakes import FakeTokenizer, ScriptedEngine, completion

FOLDER = Path(__file__).resolve().parents[2] / "examples/code_feedback"
LABEL = json.dumps({"name": "f", "examples": [[[3], 10], [[5], 12]], "hidden": [[[20], 27], [[0], 7]]})


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"code_feedback_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def agent():
    module = load("agent_func")
    yield module
    module.sandbox().close()


async def play(agent: ModuleType, *actions: str):
    left = list(actions)
    engine = ScriptedEngine(lambda call: completion(left.pop(0)))
    trajectory = await agent.AgentExecutor().execute(
        "write f", LABEL, SamplingParams(max_tokens=80), 800, FakeTokenizer(), engine
    )
    return trajectory, FakeTokenizer().decode(trajectory.segments[0].token_ids.tolist())


async def test_a_right_function_is_done_at_once(agent):
    trajectory, text = await play(agent, "def f(x):\n    return x + 7\n```")
    assert (trajectory.outcome.reward, trajectory.outcome.score) == (1.0, 1.0)
    assert "again" not in text


async def test_a_wrong_one_hears_of_an_example_and_may_be_mended(agent):
    trajectory, text = await play(agent, "def f(x):\n    return x + 8\n```", "def f(x):\n    return x + 7\n```")
    assert "User: f(3) must be 10." in text
    assert "27" not in text  # nothing of the hidden cases
    assert trajectory.outcome.reward == 1.0
    assert trajectory.outcome.extra_logs["retries"] == 1.0


async def test_what_only_fits_the_examples_is_not_right(agent):
    trajectory, _ = await play(agent, "def f(x):\n    return {3: 10, 5: 12}.get(x, 0)\n```")
    assert trajectory.outcome.reward == 0.0


async def test_code_that_does_not_run_is_told_why(agent):
    trajectory, text = await play(agent, "def f(x):\n    return y\n```", "nothing")
    assert "NameError" in text
    assert (trajectory.outcome.reward, trajectory.outcome.extra_logs["crashed"]) == (0.0, 1.0)


def test_the_data_is_what_it_says():
    train, test = load("make_data").make_rows()
    assert (len(train), len(test)) == (192, 16)
    assert not {row["prompt"] for row in train} & {row["prompt"] for row in test}
    for row in train:
        words, label = row["prompt"], json.loads(row["label"])
        ((x,), expected), *_ = label["hidden"]
        if "that returns x plus " in words:
            assert expected == x + int(words.rpartition(" plus ")[2].partition(".")[0])

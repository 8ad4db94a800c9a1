"""The example of an Agents SDK agent on a scripted engine: which answers it asks for, and what they earn."""

import importlib.util
import json
from pathlib import Path

import pytest

from tests.agent_fakes import ChatTokenizer, play, within
from tests.fakes import ScriptedEngine, completion

EXAMPLE = Path(__file__).parents[4] / "examples/python/agent_func_openai_agents.py"


def call(name: str, **arguments: object) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"


LOOK, ROME = call("look_up", city="Lima"), call("look_up", city="Rome")


@pytest.mark.parametrize(
    ("said", "reward", "logs"),
    [
        ([LOOK, call("report", degrees=22)], 1.0, {"looked_up": 1.0, "reported": 1.0}),
        ([LOOK, call("report", degrees=7)], 0.0, {"looked_up": 1.0, "reported": 1.0}),
        ([call("report", degrees=22)], 0.0, {"looked_up": 0.0, "reported": 1.0}),
        ([LOOK, ROME, LOOK], 0.0, {"looked_up": 3.0, "reported": 0.0}),
        (["<tool_call>{cut off"], 0.0, {"looked_up": 0.0, "reported": 0.0}),
    ],
)
async def test_only_a_looked_up_report_earns_something(said, reward, logs):
    spec = importlib.util.spec_from_file_location("example", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    left = list(said)
    executor, engine = example.AgentExecutor(), ScriptedEngine(lambda _: completion(left.pop(0)))
    options = {"tokenizer": ChatTokenizer(), "max_tokens": 200, "max_length": 4000}
    trajectory = await within(30, play(executor, engine, prompt="How warm is it in Lima?", label="22", **options))
    await executor.close()
    assert trajectory.outcome.reward == reward
    assert dict(trajectory.outcome.extra_logs) == logs
    (segment,) = trajectory.segments
    assert len(segment.turns) == len(said)
    assert left == []
    assert all(asked.sampling.structured_outputs for asked in engine.calls)

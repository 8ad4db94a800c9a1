"""The number game with a scripted policy: hints, ends, rewards."""

import importlib.util
from pathlib import Path

import pytest

from tests.agent_fakes import play
from tests.fakes import FakeTokenizer, ScriptedEngine, completion

EXAMPLE = Path(__file__).parents[3] / "examples/python/agent_func_higher_lower.py"


@pytest.mark.parametrize(
    ("guesses", "reward", "said"),
    [
        ("46", 1.0, ", higher. Guess: "),
        ("746", 1.0, ", lower. Guess: , higher. Guess: "),
        ("455", 0.0, ", higher. Guess: , higher. Guess: "),
    ],
)
async def test_guesses_are_answered_until_the_number_is_found(guesses, reward, said):
    spec = importlib.util.spec_from_file_location("example", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    left = list(guesses)
    engine = ScriptedEngine(lambda _: completion(left.pop(0)))
    trajectory = await play(example.AgentExecutor(), engine, prompt="Guess: ", label="6")
    assert trajectory.outcome.reward == reward
    (segment,) = trajectory.segments
    given = segment.token_ids[~segment.action_mask].tolist()
    assert FakeTokenizer().decode(given) == "Guess: " + said
    assert {tuple(call.sampling.structured_outputs["choice"]) for call in engine.calls} == {tuple("1234567")}
    assert left == []

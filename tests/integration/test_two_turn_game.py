"""A game of two turns in which only looking first pays: a tiny model learns to look, and to use what it saw.

    prompt ? -> L (look) or G (go on)        looking shows the secret, x or y; going on shows z
             -> X or Y                       reward 1 if that is the secret

The model begins with both choices equally likely everywhere, so it scores 0.5; without looking nobody scores more. The
reward comes after the second turn, so the first is learnt from what it makes possible.
"""

import pytest

from tests.integration.toy import make_talker
from tests.integration.training import rows, train, write_inputs

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

AGENT = """
from openrlhf.utils.agent import AgentInstanceBase, MultiTurnAgentExecutor


class Game(AgentInstanceBase):
    async def reset(self, states, **kwargs):
        return {"observation": states["observation"]}

    async def step(self, states, **kwargs):
        if states["turn"] == 0:
            looked = states["action_text"] == "L"
            shown = states["label"].lower() if looked else "z"
            return {"rewards": 0.0, "done": False, "environment_feedback": shown, "extra_logs": {"looked": looked}}
        return {"rewards": float(states["action_text"] == states["label"]), "done": True}


class AgentExecutor(MultiTurnAgentExecutor):
    def __init__(self):
        super().__init__(Game)
"""
CHOICES = {"?": "LG", "x": "XY", "y": "XY", "z": "XY"}


def write_games(path, count: int) -> None:
    """The prompts are all the same: nothing in them gives the secret away."""
    path.write_text("".join(f'{{"input": "go?", "label": "{"XY"[game % 2]}"}}\n' for game in range(count)))


def test_a_two_turn_game_is_learnt(tmp_path):
    inputs = write_inputs(tmp_path / "inputs", make_talker(tmp_path / "model", CHOICES, max_positions=64))
    write_games(inputs.prompts, 64)
    write_games(inputs.folder / "held_out.jsonl", 16)
    (tmp_path / "agent.py").write_text(AGENT)
    flags = inputs.flags(
        tmp_path / "run",
        reward__remote_url=None,
        train__agent_func_path=tmp_path / "agent.py",
        rollout__batch_size=16,
        rollout__n_samples_per_prompt=8,
        rollout__max_new_tokens=1,
        train__batch_size=128,
        rollout__micro_batch_size=64,
        train__micro_batch_size=64,
        train__num_episodes=6,  # of 4 steps
        actor__adam__lr=2e-3,
        actor__lr_scheduler="constant",
        eval__dataset=inputs.folder / "held_out.jsonl",
        eval__at_start=True,
        eval__n_samples_per_prompt=8,
        eval__temperature=1.0,
    )
    run = train(flags, tmp_path / "log")
    assert run.process.returncode == 0, run.stderr[-4000:] + run.stdout[-2000:]
    found = rows(tmp_path / "run")
    before, after = (row["eval_default_pass1"] for row in found if "eval_default_pass1" in row)
    assert 0.3 < before < 0.7  # 128 games of 0.5: more than four deviations of 0.044 either way
    assert after >= 0.9
    steps = [row for row in found if "train/policy_loss" in row]
    assert {row["rollout/extra/num_turns"] for row in steps} == {2.0}
    assert {row["rollout/response_length_mean"] for row in steps} == {2.0}  # what the game shows does not count
    assert steps[0]["rollout/extra/looked"] < 0.7
    assert steps[-1]["rollout/extra/looked"] > 0.9
    assert max(row["train/logprobs_diff_max"] for row in steps) < 1e-3

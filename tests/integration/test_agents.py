"""Whole runs with agents on a tiny model in fp32: what an agent's episodes leave in metrics and stored rollouts."""

from pathlib import Path

import pytest

from openrlhf.track.rollout_file import stored_samples
from tests.integration.training import Inputs, rows, train, write_inputs
from tests.models import make_tiny_llama

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(600)]

TWO_TURNS = """
from openrlhf.utils.agent import AgentInstanceBase, MultiTurnAgentExecutor


class AgentInstance(AgentInstanceBase):
    async def reset(self, states, **kwargs):
        self.turn = 0
        return {"observation": states["observation"]}

    async def step(self, states, **kwargs):
        self.turn += 1
        if states["label"] == "3":
            raise KeyError("no such puzzle")
        text = states["action_text"]
        share = sum(c.isdigit() for c in text) / max(1, len(text))
        return {"rewards": share, "done": self.turn == 2, "environment_feedback": "\\nagain: "}


class AgentExecutor(MultiTurnAgentExecutor):
    def __init__(self):
        super().__init__(AgentInstance, per_turn_rewards=True)
"""

OVER_HTTP = """
from openai import AsyncOpenAI

from openrlhf.utils.agent import OpenAIServerAgentExecutor


class AgentExecutor(OpenAIServerAgentExecutor):
    async def run_agent(self, *, prompt, label, base_url, session_id, images=None, **kwargs):
        messages = [{"role": "user", "content": prompt}]
        texts = []
        async with AsyncOpenAI(base_url=base_url, api_key="unused", max_retries=0) as client:
            for _ in range(2):
                answer = await client.chat.completions.create(model="policy", messages=messages)
                texts.append(answer.choices[0].message.content or "")
                messages += [{"role": "assistant", "content": texts[-1]}, {"role": "user", "content": "again"}]
        text = "".join(texts)
        return {"reward": sum(c.isdigit() for c in text) / max(1, len(text))}
"""


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> Inputs:
    folder = tmp_path_factory.mktemp("inputs")
    return write_inputs(folder, make_tiny_llama(folder / "model"))


def stored(output: Path) -> list[dict]:
    return list(stored_samples(output / "rollouts"))


@pytest.mark.parametrize("agent", [TWO_TURNS, OVER_HTTP], ids=["turns", "http"])
def test_an_agents_episodes_are_trained_on(inputs, tmp_path, agent):
    (tmp_path / "agent.py").write_text(agent)
    output = tmp_path / "run"
    flags = inputs.flags(
        output,
        train__agent_func_path=tmp_path / "agent.py",
        algo__advantage__is_correction_enable=True,
        data__max_len=120,
        logger__num_rollouts_stored=16,
    )
    run = train(flags, tmp_path / "log")
    assert run.process.returncode == 0, run.stderr[-4000:] + run.stdout[-2000:]
    shown = run.stderr + run.stdout
    assert "--reward.remote_url" in shown
    assert "is switched off: --train.agent_func_path gives the rewards" in " ".join(shown.split())

    metrics = [row for row in rows(output) if "train/policy_loss" in row]
    assert len(metrics) == 2
    for row in metrics:
        # The stored ids, scored again by the trainer, have the log-probabilities that they were sampled with: fp32 on
        # both sides agrees to 1e-4. A token out of place or a mask off by one would differ by whole units.
        assert row["train/logprobs_diff_max"] < 1e-3
        assert row["rollout/response_length_mean"] <= 16  # two turns of 8; the environment's tokens do not count
        assert row["rollout/total_length_mean"] > row["rollout/response_length_mean"] + 10

    rollouts = stored(output)
    graded = [rollout for rollout in rollouts if rollout["status"] == "graded"]
    for rollout in graded:
        segments = rollout["segments"]
        assert sum(len(segment["turns"]) for segment in segments) == 2
        assert 0.0 <= rollout["reward"] <= 2.0
    if agent is TWO_TURNS:
        check_two_turns(rollouts, graded, shown, metrics)


def check_two_turns(rollouts: list[dict], graded: list[dict], shown: str, metrics: list[dict]) -> None:
    for rollout in graded:
        (segment,) = rollout["segments"]
        assert sum(turn["reward"] for turn in segment["turns"]) == pytest.approx(rollout["reward"])
    ungraded = [rollout for rollout in rollouts if rollout["status"] == "ungraded"]
    assert {rollout["label"] for rollout in ungraded} == {"3"}
    assert len(ungraded) == 4
    assert "AgentInstance.step raised KeyError: 'no such puzzle'" in ungraded[0]["reason"]
    assert " ".join(shown.split()).count("(further ones of this kind are only counted)") == 1
    assert {row["rollout/extra/num_turns"] for row in metrics} == {2.0}

"""Stored samples replay: scored again by the model that sampled them, their ids have the log-probabilities on record.

Every way of making a sample, on a real engine, through the generator to the file of stored rollouts; fp32 both sides.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from openrlhf.rollout.agent import AgentExecutorBase, AgentInstanceBase
from openrlhf.rollout.generator import RolloutGenerator
from openrlhf.rollout.multi_turn import MultiTurnAgentExecutor
from openrlhf.rollout.openai_server.executor import OpenAIServerAgentExecutor
from openrlhf.rollout.single_turn import SingleTurnExecutor
from openrlhf.track.rollout_file import read_samples
from openrlhf.track.rollout_store import RolloutStore
from openrlhf.types import Completion, Prompt, RewardOutcome, RolloutGroup, SamplingParams
from tests.agent_fakes import quick_client
from tests.fakes import ScriptedReward
from tests.models import make_tiny_tokenizer

pytestmark = [pytest.mark.engine, pytest.mark.asyncio(loop_scope="session")]

SAMPLES, TURNS, MAX_TOKENS = 6, 3, 9


class Echo(AgentInstanceBase):
    """Answers every action with its own beginning, three times."""

    async def reset(self, states: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        return {"observation": f"say: {states['observation']}\n"}

    async def step(self, states: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        feedback = f"\nyou said {states['action_text'][:4]!r}\n"
        return {"rewards": 0.5, "done": states["turn"] == TURNS - 1, "environment_feedback": feedback}


class OverHttp(OpenAIServerAgentExecutor):
    """One conversation of three turns, and a second one that begins anew."""

    async def run_agent(self, *, prompt, label, base_url, session_id, images=None, **kwargs):
        messages = [{"role": "user", "content": prompt}]
        async with quick_client(base_url) as client:
            for _ in range(TURNS - 1):
                answer = await client.chat.completions.create(model="policy", messages=messages)
                text = answer.choices[0].message.content or ""
                messages += [{"role": "assistant", "content": text}, {"role": "user", "content": "go on"}]
            await client.chat.completions.create(model="policy", messages=messages[:1])
        return {"reward": 1.0}


MODES: dict[str, tuple[Any, int, int]] = {  # executor, segments, actions of all segments
    "single turn": (SingleTurnExecutor, 1, 1),
    "agent": (lambda: MultiTurnAgentExecutor(Echo), 1, TURNS),
    "server": (OverHttp, 2, TURNS),
}


async def stored(rig, executor: AgentExecutorBase, folder: Path) -> list[dict[str, Any]]:
    """Sample one group; its rows as they lie on disk."""
    reward = ScriptedReward(lambda query, prompt, response: RewardOutcome(1.0, 1.0))
    generator = RolloutGenerator(rig.engine, executor, reward, make_tiny_tokenizer(), max_length=400)
    sampling = SamplingParams(temperature=1.0, max_tokens=MAX_TOKENS)
    prompt = Prompt(0, "count to 7")
    result = await generator.run_group(prompt, "g", SAMPLES, sampling, list(range(SAMPLES)))
    await executor.close()
    group: RolloutGroup = result.group
    RolloutStore(folder, per_step=SAMPLES).write(1, [group], {})
    return read_samples(folder / "step_000001.jsonl.gz")


@torch.no_grad()
def rescore(model, token_ids: list[int]) -> np.ndarray:
    """log p(token t | tokens before t), 0 for the first, by a plain forward pass over the whole segment."""
    ids = torch.tensor([token_ids])
    logprobs = model(ids, use_cache=False).logits[0, :-1].float().log_softmax(-1)
    return np.concatenate([[0.0], logprobs.gather(-1, ids[0, 1:, None]).squeeze(-1).numpy()])


@pytest.mark.parametrize("mode", MODES)
async def test_stored_ids_have_the_stored_logprobs(tied_rig, tmp_path, mode):
    make_executor, num_segments, num_actions = MODES[mode]
    rows = await stored(tied_rig, make_executor(), tmp_path)
    assert len(rows) == SAMPLES
    for row in rows:
        assert row["status"] == "graded"
        assert len(row["segments"]) == num_segments
        assert sum(len(segment["turns"]) for segment in row["segments"]) == num_actions
        for segment in row["segments"]:
            action = np.array(segment["action_mask"], dtype=bool)
            recorded = np.array(segment["logprobs"])
            again = rescore(tied_rig.model, segment["token_ids"])
            assert np.abs(again - recorded)[action].max() < 3e-4
            # What the environment wrote has no part in anything.
            assert np.all(recorded[~action] == 0)
            assert np.all(np.array(segment["policy_versions"])[~action] == -1)
            assert segment["loss_mask"] == segment["action_mask"]
            turns = sum(turn["end"] - turn["start"] for turn in segment["turns"])
            assert turns == action.sum() <= len(segment["turns"]) * MAX_TOKENS
            # The check can fail: one place off, whole units are between the two.
            assert np.abs(again - np.roll(recorded, 1))[action].max() > 0.5


async def test_structured_outputs_bind_what_is_sampled(tied_rig):
    """Nothing but a choice can come out, and its log-probabilities are those among the choices."""
    tokenizer, choices = make_tiny_tokenizer(), ["north", "south", "east"]
    sampling = SamplingParams(max_tokens=16, structured_outputs={"choice": choices})
    completions: list[Completion] = [await tied_rig.engine.generate([10, 20, 30 + i], sampling) for i in range(6)]
    for completion in completions:
        assert completion.finish_reason == "stop"
        assert tokenizer.decode(completion.token_ids, skip_special_tokens=True) in choices
        assert np.all(completion.logprobs[1:] > -1e-6)  # after its first letter nothing is left to choose
    for wrong, message in (({"colour": "red"}, "has no colour; known"), ({"regex": "a", "json": "{}"}, "one kind")):
        with pytest.raises(ValueError, match=message):
            await tied_rig.engine.generate([10], SamplingParams(max_tokens=1, structured_outputs=wrong))

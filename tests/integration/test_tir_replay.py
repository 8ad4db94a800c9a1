"""Episodes with code on a real engine and in the real sandbox: stored ids, scored again, have the stored logprobs."""

import numpy as np
import pytest
import torch

from openrlhf.config.env import EnvConfig
from openrlhf.env.env_config import environments_of
from openrlhf.rollout.environments import Environments
from openrlhf.rollout.generator import RolloutGenerator
from openrlhf.rollout.single_turn import SingleTurnExecutor
from openrlhf.track.rollout_file import read_samples
from openrlhf.track.rollout_store import RolloutStore
from openrlhf.types import Prompt, RewardOutcome, SamplingParams
from tests.fakes import ScriptedReward
from tests.integration.test_tir_launch import CHAIN
from tests.integration.toy import make_talker
from tests.models import make_tiny_tokenizer

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

SAMPLES = 160


async def test_actions_have_their_logprobs_and_results_have_none(vllm_environment, tmp_path):
    from transformers import LlamaForCausalLM

    from openrlhf.rollout.vllm.engine import VllmEngine
    from tests.integration.vllm_rig import rig_args

    folder = make_talker(tmp_path / "model", CHAIN, max_positions=600)
    engine = VllmEngine(rig_args(folder))
    await engine.start()
    environments = Environments(environments_of(EnvConfig()), max_episodes=64)
    reward = ScriptedReward(lambda query, prompt, response: RewardOutcome(1.0, 1.0))
    generator = RolloutGenerator(
        engine, SingleTurnExecutor(), reward, make_tiny_tokenizer(), max_length=400, environments=environments
    )
    prompt = Prompt(0, "1+0:", env_func="math_tir_async")
    try:
        sampling = SamplingParams(max_tokens=300)
        group = (await generator.run_group(prompt, "g", SAMPLES, sampling, range(SAMPLES))).group
    finally:
        await environments.close()
        engine.shutdown()
    RolloutStore(tmp_path, per_step=SAMPLES).write(1, [group], {})
    rows = read_samples(tmp_path / "step_000001.jsonl.gz")
    with_code = [row for row in rows if row["extra_logs"]["code_runs"] > 0]
    assert with_code  # about one in twenty
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
    for row in [*with_code, *rows[:8]]:
        (segment,) = row["segments"]
        action, recorded = np.array(segment["action_mask"], dtype=bool), np.array(segment["logprobs"])
        ids = torch.tensor([segment["token_ids"]])
        with torch.no_grad():
            again = model(ids, use_cache=False).logits[0, :-1].log_softmax(-1)
        again = np.concatenate([[0.0], again.gather(-1, ids[0, 1:, None]).squeeze(-1).numpy()])
        assert np.abs(again - recorded)[action].max() < 3e-4
        assert np.all(recorded[~action] == 0)
        assert np.abs(again - np.roll(recorded, 1))[action].max() > 0.3  # the check can fail: ln 2 is between them
    for row in with_code:
        (segment,) = row["segments"]
        gaps = np.diff(np.flatnonzero(segment["action_mask"]))
        assert gaps.max() > len("\n```output\n\n```\n\n\n")  # the result lies between two actions
        assert row["response"].count("```output") == row["extra_logs"]["code_runs"]

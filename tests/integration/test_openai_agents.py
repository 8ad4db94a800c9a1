"""SmolLM2 inside OpenAI's Agents SDK: bound sampling makes its tool calls well-formed; its episodes are trained on."""

import json
import subprocess
import sys

import pytest

from tests.integration.test_agents import stored
from tests.integration.training import ROOT, Inputs, marked_environment, rows, start_training, wait_until_gone

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(1200)]

EXAMPLE = ROOT / "examples/python/agent_func_openai_agents.py"
RUN_S = 1000.0  # two to three minutes on a quiet machine


def test_two_tools_of_the_agents_sdk_are_called_and_trained_on(tmp_path):
    from openrlhf.models.tokenizer import load_tokenizer

    model, prompts = ROOT / ".models/SmolLM2-135M-Instruct", tmp_path / "weather.jsonl"
    subprocess.run([sys.executable, ROOT / "examples/quickstart/prepare_model.py", model], check=True, timeout=600)
    subprocess.run([sys.executable, EXAMPLE, prompts], check=True, timeout=120)
    flags = Inputs(tmp_path, model, prompts, prompts).flags(
        tmp_path / "run",
        reward__remote_url=None,
        train__agent_func_path=EXAMPLE,
        data__input_key="prompt",
        data__max_len=400,
        rollout__max_new_tokens=48,
        actor__adam__lr=1e-5,
        train__max_steps=2,
        logger__num_rollouts_stored=16,
    )
    with marked_environment() as environment:
        run = start_training(flags, tmp_path / "log", environment)
        run.wait(RUN_S)
        assert wait_until_gone(environment) == []
    assert run.process.returncode == 0, run.stderr[-4000:] + run.stdout[-2000:]
    steps = [row for row in rows(tmp_path / "run") if "train/policy_loss" in row]
    assert len(steps) == 2
    tokenizer, names = load_tokenizer(str(model)), []
    for sample in stored(tmp_path / "run"):
        assert sample["status"] == "graded", sample["reason"]
        for segment in sample["segments"]:
            ids = segment["token_ids"]
            said = [tokenizer.decode(ids[turn["start"] : turn["end"]]) for turn in segment["turns"]]
            for text in said if not sample["truncated"] else said[:-1]:
                body, end = text.removeprefix("<tool_call>").split("</tool_call>")
                assert text.startswith("<tool_call>")
                assert end == tokenizer.eos_token
                call = json.loads(body)
                names.append(call["name"])
                assert set(call["arguments"]) == {{"look_up": "city", "report": "degrees"}[call["name"]]}
    assert len(names) >= 32
    assert set(names) == {"look_up", "report"}
    for row in steps:
        assert row["train/tokens_trained"] > 0
        assert (row["rollout/reward_std"] > 0) == (row["train/actor_grad_norm"] > 0)

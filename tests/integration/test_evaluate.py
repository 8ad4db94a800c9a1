"""`openrlhf.cli.evaluate` as a user starts it: a local model in vLLM, single responses and episodes with code."""

import json
import sys

import pytest

from tests.integration.test_tir_launch import CHAIN
from tests.integration.toy import make_talker
from tests.integration.training import ROOT, marked_environment, start, wait_until_gone

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(600)]

REWARD = """
def reward_func(queries, prompts, labels):
    return [float(f"boxed{{{label}}}" in query[len(prompt):]) for query, prompt, label in zip(queries, prompts, labels)]
"""


def test_a_local_model_on_two_datasources(tmp_path):
    model = make_talker(tmp_path / "model", CHAIN, max_positions=600)
    rows = [{"input": f"{n}:", "label": "1", "datasource": "plain"} for n in range(4)]
    rows += [{"input": f"{n}:", "label": "1", "datasource": "code", "env_func": "math_tir_async"} for n in range(4)]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "reward.py").write_text(REWARD)
    flags = f"--actor.model_name_or_path {model} --eval.dataset {tmp_path}/rows.jsonl --data.label_key label "
    flags += f"--reward.remote_url {tmp_path}/reward.py --data.max_len 400 --rollout.max_new_tokens 300 --device cpu "
    flags += f"--eval.n_samples_per_prompt 32 --eval.pass_at 1 8 --eval.temperature 1.0 --output_dir {tmp_path}/out"
    with marked_environment() as environment:
        command = [sys.executable, "-m", "openrlhf.cli.evaluate", *flags.split()]
        run = start(command, tmp_path / "log", environment, ROOT)
        assert run.wait() == 0, run.stderr[-4000:] + run.stdout[-2000:]
        assert wait_until_gone(environment) == []
    summary = json.loads((tmp_path / "out/summary.json").read_text())
    lines = (tmp_path / "out/responses.jsonl").read_text().splitlines()
    assert len(lines) == 8 * 32
    for source in ("plain", "code"):
        numbers = summary[source]
        assert numbers["samples"] == 128
        # About one answer in six boxes a 1: of 128, a deviation of 0.03.
        assert 0.05 < numbers["pass@1"]["value"] < 0.4
        assert numbers["pass@1"]["low"] < numbers["pass@1"]["value"] < numbers["pass@1"]["high"]
        assert numbers["pass@8"]["value"] > numbers["pass@1"]["value"]
        assert numbers["failures"]["wrong"] > 0
    assert summary["code"]["extra_logs"]["code_runs"] > 0
    assert "code_runs" not in summary["plain"]["extra_logs"]
    assert "pass@8" in run.stdout

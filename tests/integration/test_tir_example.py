"""The example with a Python tool as a user runs it: SmolLM2-135M runs real code, and more and more of it without an
error. Several minutes; the curve is kept in docs/proofs/tir."""

import json

import numpy as np
import pytest

from openrlhf.track.rollout_file import stored_samples
from tests.integration.training import ROOT, marked_environment, start
from tests.proofs import keep

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(2700)]

KEPT = ("metrics.jsonl", "tir_curve.png")


def test_programs_break_less_often_with_every_step(tmp_path):
    run = tmp_path / "run"
    with marked_environment() as environment:  # a run out of time leaves no process behind
        settings = {"RUN": str(run), "DATA": str(tmp_path / "data"), "SEED": "0"}
        command = [str(ROOT / "examples/tir/run.sh"), "--ds.param_dtype", "fp32"]  # some CPUs would take bf16
        started = start(command, tmp_path / "log", environment | settings)
        assert started.wait(2600) == 0, started.stderr[-4000:]
    keep("tir/seed_0", [run / name for name in KEPT])
    steps = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    without_error = np.array([step["rollout/extra/code_success_rate"] for step in steps])
    right = np.array([step["rollout/score_mean"] for step in steps])
    quarter = len(steps) // 4
    assert without_error[-quarter:].mean() > without_error[:quarter].mean() + 0.1
    assert right[-quarter:].mean() > right[:quarter].mean() + 0.1
    for step in steps:
        # Every stored id, scored again by the trainer, has the logprob it was sampled with: actions only, since what
        # the sandbox printed has mask 0. In bf16 they differ by up to 0.04.
        assert step["train/logprobs_diff"] < 1e-4
    with_code = [sample for sample in stored_samples(run / "rollouts") if sample["extra_logs"].get("code_runs", 0) > 0]
    assert len(with_code) > len(steps)
    for sample in with_code:
        (segment,) = sample["segments"]
        assert not all(segment["action_mask"][segment["action_mask"].index(1) :])
        assert "```output" in sample["response"] or sample["truncated"]  # the result may have been cut

"""A whole run whose rows say by their labels what grades them, and no other source of rewards: puzzles of reasoning-gym
and knights and knaves, with bad examples that leave after the normalisation of advantages."""

import json
from pathlib import Path

import pytest

from openrlhf.track.rollout_file import read_samples
from tests.integration.toy import make_talker
from tests.integration.training import rows, train, write_inputs

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(600)]

PUZZLE = {"uuid": "a", "data_source": "reasoning_gym/chain_sum", "gold_ans": "3", "metadata": {"expression": "1 + 2"}}
KNIGHTS = {"uuid": "b", "task": "kk", "gold_ans": "Ann is a knight and Bob is a knave."}


def write_prompts(file: Path) -> None:
    puzzle = {"input": "1+2=", "label": json.dumps(PUZZLE), "task": "synlogic"}  # the task beside its label
    knights = {"input": "who=", "label": json.dumps(KNIGHTS)}
    file.write_text("".join(json.dumps(row) + "\n" for row in [puzzle, knights] * 4))


def test_rows_are_graded_by_the_task_of_their_label(tmp_path):
    # After `=` the policy says 3 (right for the puzzle) or 4 and ends, or says 5 for ever: cut off and not right.
    model = make_talker(tmp_path / "model", {"=": "345", "3": "$", "4": "$", "5": "5"}, 64)
    inputs = write_inputs(tmp_path / "inputs", model)
    write_prompts(inputs.prompts)
    output = tmp_path / "run"
    flags = inputs.flags(
        output,
        reward__remote_url=None,
        algo__bad_examples__filter_enable=True,
        algo__bad_examples__advantage_mask="after",
        logger__num_rollouts_stored=16,
        train__max_steps=1,
    )
    run = train(flags, tmp_path / "log")
    assert run.process.returncode == 0, run.stderr[-4000:] + run.stdout[-2000:]

    samples = read_samples(output / "rollouts/step_000001.jsonl.gz")
    assert len(samples) == 16
    bad = [sample for sample in samples if sample["truncated"]]
    assert 0 < len(bad) < 16
    for sample in samples:
        assert sample["status"] == "graded"
        said = sample["response"].removesuffix("</s>")
        puzzle = "synlogic" not in sample["label"] and "chain_sum" in sample["label"]
        # kk: -1 for the missing form, 0 right roles. The puzzle: reasoning-gym's own check.
        expected = (float(said == "3"),) * 2 if puzzle else (-1.0, 0.0)
        assert (sample["reward"], sample["score"]) == expected
        assert {"format_answer", "repeatness"} <= set(sample["extra_logs"])
    for sample in bad:
        assert sample["response"].startswith("5555")
        assert set(sample["segments"][0]["advantages"]) == {0.0}  # it has left the loss
    assert any(set(sample["segments"][0]["advantages"]) != {0.0} for sample in samples)

    (metrics,) = [row for row in rows(output) if "train/policy_loss" in row]
    assert metrics["rollout/bad_example_rate"] == pytest.approx(len(bad) / 16)
    assert 0 < metrics["rollout/good_sample_rate"] < 1
    assert metrics["train/logprobs_diff_max"] < 1e-3

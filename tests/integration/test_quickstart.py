"""The quickstart as a user runs it, for three seeds, and its control: several minutes each."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.proofs import keep

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(2700)]


def quickstart(run: Path, *flags: str, **settings: str) -> list[dict]:
    """Run the script into `run`; return the rows of its metrics.jsonl."""
    # One folder of data for all runs: the untrained model is scored once.
    environment = {"DATA": str(run.parents[1] / "data")} | os.environ | {"RUN": str(run)} | settings
    subprocess.run([ROOT / "examples" / "quickstart" / "run.sh", *flags], env=environment, check=True, timeout=2600)
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


KEPT = ("score_before.json", "score_after.json", "metrics.jsonl", "reward_curve.png")


def scores(run: Path) -> tuple[dict, dict]:
    before, after = (json.loads((run / f"score_{when}.json").read_text()) for when in ("before", "after"))
    return before, after


@pytest.mark.parametrize("seed", ["0", "1", "2"])
def test_the_model_learns_the_task_within_twenty_steps(tmp_path, seed):
    run = tmp_path / "run"
    rows = quickstart(run, SEED=seed)
    keep(f"quickstart/seed_{seed}", [run / name for name in KEPT])
    before, after = scores(run)
    assert before["sampled"] < 0.5
    assert after["sampled"] >= 0.9
    assert after["greedy"] >= 0.9
    assert rows[-1]["step"] <= 20
    for name in ("config.yaml", "reward_curve.png", "config.json", "model.safetensors", "chat_template.jinja"):
        assert (run / name).is_file(), name
    assert list((run / "rollouts").glob("step_*.jsonl.gz"))
    assert list((run / "tensorboard").glob("events.*"))


def test_without_a_learning_rate_the_score_stays(tmp_path):
    run = tmp_path / "run"
    quickstart(run, LR="0", STEPS="3")
    keep("quickstart/learning_rate_0", [run / name for name in KEPT])
    before, after = scores(run)
    # The exported weights are the ones it began with, so the greedy answers are the same, up to nothing.
    assert after["greedy"] == before["greedy"]
    # 128 sampled replies with the same generator seed: the same texts.
    assert after["sampled"] == before["sampled"]


def test_the_same_seed_gives_the_same_rewards(tmp_path):
    rows = [
        quickstart(tmp_path / name, "--train.full_determinism_enable", SEED="3", STEPS="2") for name in ("one", "two")
    ]
    first, second = ([row.get("rollout/reward_mean") for row in run] for run in rows)
    assert any(first)
    assert first == second


def test_the_harder_example_learns(tmp_path):
    """Dates in words to ISO dates: its curve is kept, and the bar is low, for it is the harder one."""
    run = tmp_path / "run"
    environment = os.environ | {"RUN": str(run), "DATA": str(run.parent / "data"), "SEED": "0"}
    subprocess.run([ROOT / "examples" / "dates" / "run.sh"], env=environment, check=True, timeout=2600)
    keep("dates/seed_0", [run / name for name in KEPT])
    before, after = scores(run)
    assert after["sampled"] > before["sampled"] + 0.1

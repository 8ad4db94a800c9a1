"""Whole runs of the training command on a tiny model, and what their metrics say."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from .machine import ROOT

PROMPTS, SAMPLES = 8, 4  # of a step


def make_model(folder: Path) -> None:
    """A random Llama; with one sample per micro-batch a training step takes about a second on two cores."""
    sys.path.insert(0, str(ROOT))
    from tests.models import make_tiny_llama

    make_tiny_llama(folder)


def write_prompts(path: Path, count: int) -> None:
    prompts = [{"input": f"count to {i}"} for i in range(count)]
    path.write_text("".join(json.dumps(row) + "\n" for row in prompts))


def run(name: str, folder: Path, steps: int, flags: Mapping[str, object]) -> list[dict]:
    """Train `folder/model` on `folder/prompts.jsonl` into `folder/name`; return the rows of metrics.jsonl.

    `flags`: over those that every run here has; None for one without a value. The output of a run that fails ends the
    process.
    """
    output = folder / name
    all_flags = {
        "--actor.model_name_or_path": folder / "model",
        "--data.prompt_dataset": folder / "prompts.jsonl",
        "--algo.advantage.estimator": "reinforce_baseline",
        "--algo.kl.init_coef": 0,
        "--data.max_len": 96,
        "--rollout.batch_size": PROMPTS,
        "--rollout.n_samples_per_prompt": SAMPLES,
        "--rollout.max_new_tokens": 48,
        "--rollout.micro_batch_size": 4,
        "--train.batch_size": PROMPTS * SAMPLES,
        "--train.micro_batch_size": 1,
        "--ds.param_dtype": "fp32",
        "--ds.no-packing_samples": None,
        "--train.max_steps": steps,
        "--ckpt.output_dir": output,
    }
    parts = [[flag] if value is None else [flag, str(value)] for flag, value in (all_flags | flags).items()]
    command = [sys.executable, "-m", "openrlhf.cli.train_ppo_ray", *(part for both in parts for part in both)]
    with (folder / f"{name}.log").open("w") as log:
        done = subprocess.run(command, cwd=ROOT, stdout=log, stderr=log, timeout=1800, check=False)
    if done.returncode:
        raise SystemExit((folder / f"{name}.log").read_text()[-3000:])
    return [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]

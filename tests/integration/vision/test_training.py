"""Whole runs of the command over pictures: the example's model and data, on real Ray, vLLM and DeepSpeed."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from openrlhf.track.rollout_file import read_samples
from tests.integration.training import ROOT, Inputs, rows, train
from tests.proofs import keep
from tests.vision_models import chosen

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]

EXAMPLE = ROOT / "examples" / "vision"
FLAGS = {
    "data__input_key": "prompt",
    "data__apply_chat_template": True,
    "data__max_images_per_prompt": 1,
    "data__max_len": 64,
    "algo__advantage__estimator": "group_norm",
    "rollout__max_new_tokens": 2,
    "vllm__cpu_kv_cache_gb": 1,
}
LEARNING = {
    "rollout__batch_size": 16,
    "rollout__n_samples_per_prompt": 8,
    "rollout__micro_batch_size": 64,
    "train__batch_size": 128,
    "train__micro_batch_size": 64,
    "train__num_episodes": 16,
    "train__max_steps": 120,
    "actor__adam__lr": 5e-4,
    "actor__lr_scheduler": "constant",
    "eval__at_start": True,
    "eval__temperature": 1.0,
    "eval__n_samples_per_prompt": 4,
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """The example's data, and its model in the folder `idefics3`."""
    folder = tmp_path_factory.mktemp("pictures")
    subprocess.run([sys.executable, EXAMPLE / "make_data.py", folder], check=True, cwd=ROOT)
    make_model(folder, "idefics3")
    return folder


def make_model(folder: Path, architecture: str) -> None:
    if not (folder / architecture).exists():
        command = [sys.executable, EXAMPLE / "prepare_model.py", folder / architecture, architecture]
        subprocess.run(command, check=True, cwd=ROOT)


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def write(path: Path, content: list[dict]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in content))
    return path


def inputs(folder: Path, prompts: Path, architecture: str = "idefics3") -> Inputs:
    return Inputs(folder, folder / architecture, prompts, EXAMPLE / "reward_func.py")


@pytest.mark.slow
def test_pictures_and_text_on_two_processes(folder, tmp_path):
    # Every other row is text, so a rank's micro-batch often has no picture; micro-batches hold two sequences.
    content = lines(folder / "train.jsonl")[:16]
    for row in content[::2]:
        row["prompt"], row["images"] = [{"role": "user", "content": "how many are there"}], None
    prompts = write(folder / "mixed.jsonl", content)
    flags = inputs(folder, prompts).flags(
        tmp_path / "run",
        **FLAGS
        | {
            "rollout__batch_size": 8,
            "train__batch_size": 32,
            "train__micro_batch_size": 2,
            "train__max_steps": 2,
            "actor__num_gpus_per_node": 2,
            "algo__kl__init_coef": 1e-3,
            "logger__num_rollouts_stored": 8,
        },
    )
    run = train(flags, tmp_path / "log")
    assert run.process.returncode == 0, run.stderr[-3000:]
    found = rows(tmp_path / "run")
    assert [row["step"] for row in found] == [1, 2]
    # Engine and trainer agree, also after the first sync: both steps' ratios are 1.
    for row in found:
        assert row["train/logprobs_diff_max"] < 1e-4
    stored = read_samples(tmp_path / "run" / "rollouts" / "step_000001.jsonl.gz")
    shown = [name for row in stored for segment in row["segments"] for name in segment.get("images", [])]
    assert shown
    assert all((tmp_path / "run" / "rollouts" / "images" / name).is_file() for name in shown)
    assert (tmp_path / "run" / "processor_config.json").is_file()


@pytest.mark.slow
def test_a_second_look(folder, tmp_path):
    prompts = write(folder / "few.jsonl", lines(folder / "train.jsonl")[:8])
    flags = inputs(folder, prompts).flags(
        tmp_path / "run",
        **FLAGS
        | {
            "data__max_images_per_prompt": 2,
            "reward__remote_url": None,
            "train__agent_func_path": ROOT / "examples" / "python" / "vlm_multiturn_agent.py",
            "train__max_steps": 1,
            "logger__num_rollouts_stored": 16,
        },
    )
    run = train(flags, tmp_path / "log")
    assert run.process.returncode == 0, run.stderr[-3000:]
    stored = read_samples(tmp_path / "run" / "rollouts" / "step_000001.jsonl.gz")
    assert {len(segment["images"]) for row in stored for segment in row["segments"]} == {1, 2}
    assert all(row["status"] == "graded" for row in stored)


RUNS = [(name, "trained") for name in chosen()] + [("idefics3", "frozen"), ("idefics3", "mismatched")]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(("architecture", "kind"), RUNS)
def test_colours_are_learnt(folder, tmp_path, architecture, kind, seed):
    content = {
        name: [r for r in lines(folder / f"{name}.jsonl") if r["datasource"] == "colour"] for name in ("train", "test")
    }
    if kind == "mismatched":
        for part in content.values():
            images = [row["images"] for row in part]
            random.Random(0).shuffle(images)
            for row, other in zip(part, images, strict=True):
                row["images"] = other
    make_model(folder, architecture)
    train_set, test_set = (write(folder / f"{kind}_{name}.jsonl", part) for name, part in content.items())
    changes = {"eval__dataset": test_set, "train__seed": seed, "actor__freeze_visual_encoder": kind == "frozen" or None}
    flags = inputs(folder, train_set, architecture).flags(tmp_path / "run", **FLAGS | LEARNING | changes)
    run = train(flags, tmp_path / "log")
    assert run.process.returncode == 0, run.stderr[-3000:]
    scores = [row["eval_colour_pass1"] for row in rows(tmp_path / "run") if "eval_colour_pass1" in row]
    (tmp_path / "scores.json").write_text(json.dumps({"before": scores[0], "after": scores[-1]}) + "\n")
    keep(f"vision/{architecture}_{kind}_{seed}", [tmp_path / "scores.json"])
    assert scores[0] < 0.4
    if kind == "mismatched":
        assert scores[-1] < 0.4
    elif kind == "trained":
        assert scores[-1] >= 0.85
    else:
        assert scores[-1] > scores[0] + 0.2

"""Whole runs of `train_ppo_ray` on a tiny model in fp32: what a run leaves behind, and that it can be repeated."""

import contextlib
import json
import math
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from openrlhf.track.rollout_file import read_samples
from tests.integration.training import (
    ROOT,
    Inputs,
    Run,
    free_ports,
    marked_environment,
    rows,
    start,
    train,
    write_inputs,
)
from tests.models import make_tiny_llama

pytestmark = [pytest.mark.engine, pytest.mark.timeout(600)]

# What a run whose results must not depend on chance adds to Inputs.flags; 8 prompts, 4 per step: 2 steps.
REPEATABLE = {"train__full_determinism_enable": True, "train__seed": 1}


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> Inputs:
    folder = tmp_path_factory.mktemp("inputs")
    return write_inputs(folder, make_tiny_llama(folder / "model"))


def assert_finished(run: Run) -> None:
    assert run.process.returncode == 0, run.stderr[-4000:] + run.stdout[-2000:]


# What the full run and its repetition train on; they must not differ in it.
OBJECTIVE = {
    "algo__kl__init_coef": 0.01,
    "algo__kl__use_loss": True,
    "algo__kl__estimator": "k2",
    "actor__entropy_coef": 0.0,
    "algo__advantage__is_correction_enable": True,
    "algo__advantage__is_correction_type": "icepop",
}


@pytest.fixture(scope="module")
def full_run(inputs, tmp_path_factory) -> tuple[Path, Run]:
    """The run that most tests look at: reference model, KL loss, entropy, correction, evaluation, all at once."""
    folder = tmp_path_factory.mktemp("full")
    (folder / "held_out.jsonl").write_text('{"input": "say", "label": "x"}\n{"input": "tell", "label": "y"}\n')
    flags = inputs.flags(
        folder / "run",
        **OBJECTIVE,
        eval__dataset=folder / "held_out.jsonl",
        eval__steps=1,
        eval__at_start=True,
        eval__n_samples_per_prompt=2,
        logger__tensorboard_dir=folder / "run/tensorboard",
        logger__num_rollouts_stored=3,
        **REPEATABLE,
    )
    run = train(flags, folder / "log")
    assert_finished(run)
    return folder / "run", run


def test_every_step_logs_what_a_user_watches(full_run):
    output, _ = full_run
    before, *steps = rows(output)
    assert [row["step"] for row in (before, *steps)] == [0, 1, 2]
    names = {
        *(f"rollout/{name}" for name in ("reward_mean", "reward_std", "response_length_mean", "truncated_rate")),
        *(f"rollout/{name}" for name in ("tokens_generated", "ungraded_rate", "num_samples")),
        *(f"train/{name}" for name in ("policy_loss", "kl", "entropy", "ppo_clip_ratio", "actor_grad_norm")),
        *(f"train/{name}" for name in ("actor_lr", "tokens_trained", "logprobs_diff", "logprobs_diff_max")),
        *(f"timing/{name}" for name in ("generation", "reward", "make_experience", "ppo_train", "broadcast")),
        "timing/step_total",
        "eval_default_pass1",
        "eval_default_pass2",
    }
    for row in steps:
        assert names <= row.keys(), names - row.keys()
        assert all(isinstance(row[name], float) and math.isfinite(row[name]) for name in names)
        # 4 prompts of 4 samples, each of at most 8 tokens and at least 1.
        assert row["rollout/num_samples"] == 16
        assert 16 <= row["rollout/tokens_generated"] <= 128
        assert row["train/tokens_trained"] == row["rollout/tokens_generated"]
        assert row["train/actor_lr"] > 0
        phases = sum(row[f"timing/{name}"] for name in ("generation", "make_experience", "ppo_train", "broadcast"))
        assert phases <= row["timing/step_total"]
    assert before["eval_default_pass1"] <= before["eval_default_pass2"]
    assert not any(name.startswith(("rollout/", "train/", "timing/")) for name in before)


def test_trainer_and_engine_agree_at_every_step(full_run):
    """Also after the first update: the engine then runs the pushed weights, no older ones."""
    for row in rows(full_run[0])[1:]:
        assert 0 <= row["train/logprobs_diff"] <= row["train/logprobs_diff_max"] < 1e-4


def test_the_run_folder_holds_the_story_of_the_run(full_run, inputs):
    output, run = full_run
    config = yaml.safe_load((output / "config.yaml").read_text())
    assert config["actor"]["model_name_or_path"] == str(inputs.model)
    assert config["train"]["seed"] == 1
    assert (output / "reward_curve.png").read_bytes().startswith(b"\x89PNG")
    assert "step 2/2" in run.stdout

    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(output / "tensorboard"))
    events.Reload()
    logged = {event.step: event.value for event in events.Scalars("rollout/reward_mean")}
    assert logged == pytest.approx({row["step"]: row["rollout/reward_mean"] for row in rows(output)[1:]})

    stored = read_samples(output / "rollouts/step_000002.jsonl.gz")
    assert len(stored) == 3
    for sample in stored:
        # One update lies before the second step: all its tokens come from version 1.
        segment = sample["segments"][0]
        versions = {v for v, action in zip(segment["policy_versions"], segment["action_mask"], strict=True) if action}
        assert versions == {1}
        assert sample["status"] == "graded"
        assert sample["prompt"] == f"count to {sample['label']}"


def test_the_exported_model_loads_in_plain_transformers(full_run, inputs):
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    output, _ = full_run
    trained = AutoModelForCausalLM.from_pretrained(output, dtype=torch.float32)
    tokenizer = AutoTokenizer.from_pretrained(output)
    prompt = tokenizer.apply_chat_template([{"role": "user", "content": "hi"}], tokenize=False, add_generation_prompt=1)
    assert prompt == "user: hi\nassistant: "
    assert trained.generation_config.eos_token_id == tokenizer.eos_token_id == 2
    ids = tokenizer(prompt, return_tensors="pt")
    answer = trained.generate(**ids, max_new_tokens=3, do_sample=False)
    assert answer.shape[1] > ids["input_ids"].shape[1]

    start = dict(AutoModelForCausalLM.from_pretrained(inputs.model, dtype=torch.float32).named_parameters())
    unchanged = [name for name, weight in trained.named_parameters() if torch.equal(weight, start[name])]
    assert unchanged == []
    # Two steps of Adam move a weight by about 2 lr = 2e-3, so nothing else happened to them either.
    furthest = max((weight - start[name]).abs().max().item() for name, weight in trained.named_parameters())
    assert furthest < 4e-3


def test_the_processes_say_nothing_that_is_not_news(full_run):
    _, run = full_run
    assert run.errors() == []
    # One line per evaluation, two per step, where the model and the picture are, and one of the whole run.
    assert [" ".join(line.split()[:2]) for line in run.stdout.splitlines()] == [
        *("evaluation after", "step 1/2", "4 prompts"),
        *("evaluation after", "step 2/2", "8 prompts"),
        *("evaluation after", "exported to", "2 steps:", "reward curve:"),
    ]


def test_temporary_files_are_gone_but_for_ray_s(full_run):
    """Ray keeps its logs; vLLM's sockets would stay if nobody removed them."""
    assert full_run[1].leftovers == ["ray"]


@pytest.fixture(scope="module")
def repeated_run(inputs, full_run, tmp_path_factory) -> Path:
    """The full run once more, without what does not touch the policy: evaluation, TensorBoard."""
    folder = tmp_path_factory.mktemp("again")
    flags = inputs.flags(
        folder / "run",
        **OBJECTIVE,
        **REPEATABLE,
    )
    run = train(flags, folder / "log")
    assert_finished(run)
    return folder / "run"


def rewards_of(output: Path) -> list[float]:
    return [row["rollout/reward_mean"] for row in rows(output) if row["step"] > 0]


@pytest.mark.slow  # that a resumed run has the weights of an uncut one says it too
def test_the_same_seed_gives_the_same_rewards_and_weights(full_run, repeated_run):
    assert rewards_of(repeated_run) == rewards_of(full_run[0])
    assert len(set(rewards_of(repeated_run))) == 2
    exported = [folder / "model.safetensors" for folder in (full_run[0], repeated_run)]
    assert exported[0].read_bytes() == exported[1].read_bytes()


@pytest.mark.slow
def test_a_submitted_ray_job_trains_and_another_seed_samples_otherwise(inputs, repeated_run, tmp_path):
    """As the seeds launch it: a cluster of the user's, the repository as working directory, relative inputs."""
    work = tmp_path / "work"
    shutil.copytree(ROOT / "openrlhf", work / "openrlhf", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(inputs.prompts, work / "prompts.jsonl")
    shutil.copy(inputs.reward, work / "reward.py")
    gcs, dashboard, client, agent, metrics = free_ports(5)
    head = ["ray", "start", "--head", "--block", "--num-cpus=2", "--node-ip-address=127.0.0.1", f"--port={gcs}"]
    head += ["--dashboard-host=127.0.0.1", f"--dashboard-port={dashboard}", f"--ray-client-server-port={client}"]
    head += [f"--dashboard-agent-listen-port={agent}", f"--metrics-export-port={metrics}"]
    flags = inputs.flags(tmp_path / "run", **REPEATABLE | {"train__seed": 2})
    flags[flags.index(str(inputs.prompts))] = "prompts.jsonl"
    flags[flags.index(str(inputs.reward))] = "reward.py"
    job = ["ray", "job", "submit", "--address", f"http://127.0.0.1:{dashboard}", "--working-dir", str(work)]
    with marked_environment() as environment:
        cluster = start([*head, f"--temp-dir={environment['RAY_TMPDIR']}"], tmp_path / "cluster", environment)
        wait_for_port(dashboard, cluster)
        run = start(
            [*job, "--", "python3", "-m", "openrlhf.cli.train_ppo_ray", *flags], tmp_path / "job", environment, work
        )
        code = run.wait()
        assert code == 0, run.stdout[-4000:] + run.stderr[-2000:]
        assert cluster.process.poll() is None  # a joined cluster outlives the run
        # It is still of use: nothing of the run is left on it.
        listed = subprocess.run(
            ["ray", "list", "actors", "--address", f"http://127.0.0.1:{dashboard}", "--filter", "state=ALIVE"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert "Total: 0" in listed.stdout or "No resource" in listed.stdout, listed.stdout + listed.stderr
        cluster.process.terminate()  # Ray ends its own agents only when it is asked to go
        cluster.wait(60)
    assert (tmp_path / "run/model.safetensors").is_file()
    assert rewards_of(tmp_path / "run") != rewards_of(repeated_run)


def wait_for_port(port: int, cluster: Run, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert cluster.process.poll() is None, cluster.stdout + cluster.stderr
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5):
            return  # whether it then asks for a token is between `ray start` and `ray job submit`
        time.sleep(0.5)
    raise AssertionError(f"no dashboard on port {port}: {cluster.stdout}{cluster.stderr}")


class Grader(BaseHTTPRequestHandler):
    """A reward server that is out of order for label 0 and has no verdict on every fourth sample of label 1."""

    requests: list[dict]

    def do_POST(self) -> None:
        payload = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.requests.append(payload)
        (query,), (prompt,), (label,) = payload["query"], payload["prompts"], payload["labels"]
        if label == "0":
            self.send_error(503, "out of order")
            return
        no_verdict = label == "1" and sum(r["labels"] == ["1"] for r in self.requests) % 4 == 0
        reward = float("nan") if no_verdict else len(query) - len(prompt) - 0.1 * sum(map(ord, query)) % 7
        body = json.dumps({"rewards": [reward], "scores": [reward]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Silent."""


@pytest.fixture
def grader() -> Iterator[tuple[str, list[dict]]]:
    """Address of the server, and the requests it got."""
    requests: list[dict] = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("OwnGrader", (Grader,), {"requests": requests}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/get_reward", requests
    server.shutdown()
    server.server_close()


@pytest.mark.slow
def test_several_processes_engines_and_a_reward_server_train_together(inputs, tmp_path, grader):
    """Two policy ranks under ZeRO-3, two reference ranks, two engines, KL in the reward, a short last batch."""
    address, requests = grader
    five = write_inputs(tmp_path / "five", inputs.model, num_prompts=5)
    flags = five.flags(
        tmp_path / "run",
        actor__num_gpus_per_node=2,
        ref__num_gpus_per_node=2,
        vllm__num_engines=2,
        ds__zero_stage=3,
        algo__kl__init_coef=0.05,
        algo__kl__estimator="k1",
        reward__remote_url=address,
        rollout__batch_size=2,
        train__batch_size=4,
        train__micro_batch_size=1,
    )
    run = train(flags, tmp_path / "log")
    assert_finished(run)
    steps = rows(tmp_path / "run")
    # 5 prompts, 2 per step: 2, 2 and 1. Label 0 is never graded and its group left out; of label 1's four samples one
    # has no verdict, the other three stay.
    assert [row["step"] for row in steps] == [1, 2, 3]
    graded = dict.fromkeys("234", 4) | {"0": 0, "1": 3}
    stored: dict[int, set[str]] = {}
    for row in steps:
        samples = read_samples(tmp_path / f"run/rollouts/step_{row['step']:06d}.jsonl.gz")
        labels = stored[row["step"]] = {sample["label"] for sample in samples}
        judged = sum(graded[label] for label in labels)
        assert row["rollout/num_samples"] == judged
        assert row["rollout/ungraded_rate"] == 1 - judged / (4 * len(labels))
        if judged:
            assert row["train/logprobs_diff_max"] < 1e-4
            assert row["train/actor_grad_norm"] > 0
            assert math.isfinite(row["rollout/kl"])
    assert sorted(map(len, stored.values())) == [1, 2, 2]
    assert set().union(*stored.values()) == set("01234")
    # Label 0's four samples were asked five times each, the others once.
    assert len(requests) == 4 * 5 + 4 * 4
    assert (tmp_path / "run/model.safetensors").is_file()

"""Seed 001's whole launch script, multi-turn TIR included, with a small model and small data on a CPU.

Its flags and its environment variables are the script's own; GPU counts become processes. What the variables point to
runs here too: deepgym's server at COMPILE_SERVER_PORT, serve_math_verify at MATH_VERIFY_SERVER_PORT, a judging model at
XVERIFY_MATH_MODEL_SERVER_PORT, all at the address in NGINX_IP_FILE.

The policy is a chain of characters that opens ```python and boxes an answer now and then.
"""

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest

from tests.integration.test_agents import stored
from tests.integration.test_learning import wait_until_healthy
from tests.integration.toy import make_talker
from tests.integration.training import ROOT, Run, free_ports, marked_environment, rows, start

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(3600)]

# The script, its shell variables left in. `sleep 365d` keeps it running for ever; here --train.max_steps ends it.
COMMAND = """
--ref_num_nodes 1 --ref_num_gpus_per_node {gpus} --actor_num_nodes 1 --actor_num_gpus_per_node {gpus}
--vllm_num_engines {gpus} --vllm_tensor_parallel_size 1 --colocate_actor_ref --vllm_gpu_memory_utilization 0.9
--gamma 1.0 --l2 0.01 --async_train --dynamic_filtering --dynamic_filtering_reward_range 0.05 0.8
--eps_clip_low_high 0.22 0.28 --advantage_estimator reinforce_baseline --pretrain {PRETRAIN}
--ref_pretrain {REF_PRETRAIN} --agent_func_path examples/python/agent_func.py --save_path {SAVE_PATH}
--ckpt_path {SAVE_PATH} --save_hf_ckpt --micro_train_batch_size 4 --train_batch_size 2048
--micro_rollout_batch_size 4 --rollout_batch_size 128 --n_samples_per_prompt {N_ROLLOUT} --max_epochs 1
--num_episodes 100000000 --prompt_max_len 1024 --max_samples 100000000 --generate_max_len 8192 --zero_stage 3 --bf16
--init_kl_coef {KL} --lr_warmup_ratio {WARMUP} --actor_learning_rate {LR} --critic_learning_rate 9e-6
--prompt_data {DATA_PATH} --input_key query --label_key label --normalize_reward --gradient_checkpointing
--use_global_token_level_loss --use_dual_policy_loss --use_filter_sample --use_dynamic_batch --use_loss_mask
--use_adv_mask_after --grad_accum_dtype fp32 --use_seq_balancing --vllm_sync_backend nccl --vllm_enable_sleep
--deepspeed_enable_sleep --adam_offload --flash_attn --normalize_reward --gradient_checkpointing --packing_samples
--enforce_eager --load_checkpoint --save_steps 50 --use_tensorboard {TENSORBOARD} --remote_rm_url {REMOTE_RM_URL}
"""
EXPORTS = {
    "VLLM_ENGINE_ITERATION_TIMEOUT_S": "1000000000",
    "USE_MODEL_REWARD": "yes",
    "NCCL_TIMEOUT": "36000000",
    "MAX_CONCURRENT": "512",
    "TASK_MAX_CONCURRENT": "32",
    "MAX_VLLM_BATCHSIZE": "4",
    "ENV_ITER_NUM": "2",
    "WARMUP": "0.0",
    "LR": "1e-6",
    "KL": "0.0",
    "OPENRLHF_ASYNC_QUEUE_SIZE": "1",
    "N_ROLLOUT": "16",
    "MAX_COMPILE_RETRIES": "2",
    "CODE_CONCURRENT": "32",
    "REMOTE_RM_URL": "http://127.0.0.0:8000",
}
# After each character one of these, all equally likely. A fence needs three backticks, `python` its own letters: about
# one episode in twenty runs code, half of it broken, and one in six boxes a 1.
CHAIN = {
    ":": "`",
    "`": "`p",
    "p": "y",
    "y": "t",
    "t": "h",
    "h": "o",
    "o": "nx",
    "n": "\n",
    "\n": "1\\",
    "1": "`}",
    "}": "$",
    "\\": "b",
    "b": "o",
    "x": "e",
    "e": "d",
    "d": "{",
    "{": "1",
}
SERVER_SECONDS = 300.0


class Judge(BaseHTTPRequestHandler):
    """A judging model that finds nothing right."""

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked += 1  # type: ignore[attr-defined]
        content = json.dumps({"choices": [{"message": {"role": "assistant", "content": "Incorrect"}}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *args: object) -> None: ...


@contextmanager
def judging() -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Judge)
    server.asked = 0  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def write_data(path: Path) -> None:
    prompts = []
    for number in range(512):
        label = {"uuid": f"row-{number}", "env_func": "math_tir_async", "gold_ans": "1"}
        prompts.append({"query": f"{number}:", "label": json.dumps(label), "task": "math_tir"})
    path.write_text("".join(json.dumps(row) + "\n" for row in prompts))


def serve(command: list[str], log: Path, environment: dict[str, str], health: str) -> Run:
    server = start([sys.executable, "-m", *command], log, environment, ROOT)
    wait_until_healthy(server, health)
    return server


def enough_memory(processes: int) -> bool:
    """About a gigabyte for every trainer process and for every engine."""
    return psutil.virtual_memory().available > (2 * processes + 3) * 2**30


@pytest.mark.parametrize("gpus", [2, 8])
def test_the_script_runs(tmp_path, gpus):
    needed = f"{gpus} trainers and {gpus} engines need about {2 * gpus + 3} GB of free memory"
    assert enough_memory(gpus), needed
    model = make_talker(tmp_path / "model", CHAIN, max_positions=10_000)
    write_data(tmp_path / "data.jsonl")
    (tmp_path / "ip.txt").write_text("http://127.0.0.1\n")
    save = tmp_path / "save"
    (save / "tensorboard").mkdir(parents=True)
    (save / "node_ip.txt").write_text("127.0.0.1\n")  # the script writes it before the run
    with judging() as judge, marked_environment() as environment:
        code_port, math_port = free_ports(2)
        exports = EXPORTS | {
            "PRETRAIN": str(model),
            "REF_PRETRAIN": str(model),
            "DATA_PATH": str(tmp_path / "data.jsonl"),
            "SAVE_PATH": str(save),
            "TENSORBOARD": f"{save}/tensorboard/",
            "OPENRLHF_PATH": str(ROOT),
            "NGINX_IP_FILE": str(tmp_path / "ip.txt"),
            "COMPILE_SERVER_PORT": str(code_port),
            "MATH_VERIFY_SERVER_PORT": str(math_port),
            "XVERIFY_MATH_MODEL_SERVER_PORT": str(judge.server_address[1]),
        }
        gym = ["deepgym", "serve", "coin_change", "--infra-failure-score", "nan", "--port", str(code_port)]
        verify = ["openrlhf.cli.serve_math_verify", "--port", str(math_port)]
        serve(gym, tmp_path / "gym", environment, f"http://127.0.0.1:{code_port}/health")
        serve(verify, tmp_path / "verify", environment, f"http://127.0.0.1:{math_port}/health")
        flags = [*COMMAND.format(gpus=gpus, **exports).split(), "--train.max_steps", "2"]
        flags += ["--logger.num_rollouts_stored", "2048"]
        command = [sys.executable, "-m", "openrlhf.cli.train_ppo_ray", *flags]
        run = start(command, tmp_path / "log", environment | exports, ROOT)
        assert run.wait(3000) == 0, run.stderr[-4000:] + run.stdout[-2000:]
    check(run, rows(save), stored(save), judge.asked)  # type: ignore[attr-defined]
    assert (save / "model.safetensors").is_file()


def check(run: Run, metrics: list[dict], rollouts: list[dict], judged: int) -> None:
    steps = [row for row in metrics if "rollout/reward_mean" in row]
    assert len(steps) == 2, run.stderr[-2000:]
    for step in steps:
        assert step["train/actor_grad_norm"] > 0
        assert 0 < step["rollout/extra/code_runs"] < 1
        assert 0 < step["rollout/extra/code_success_rate"] < 1
        assert 0.0 < step["rollout/score_mean"] < 0.8
    assert judged > 0  # what the rules call wrong goes to the judging model
    with_code = [rollout for rollout in rollouts if "```output" in rollout["response"]]
    assert with_code
    for rollout in with_code:
        (segment,) = rollout["segments"]
        mask, logprobs = segment["action_mask"], segment["logprobs"]
        assert 0 in mask[mask.index(1) :]  # what the sandbox printed lies between the actions, with mask 0
        assert all(logprob == 0.0 for logprob, action in zip(logprobs, mask, strict=True) if not action)
    warnings = " ".join(run.stderr.split())
    for what in ("--reward.remote_url", "--vllm.sync_backend nccl", "--vllm.enable_sleep", "--ds.adam_offload"):
        assert what in warnings, what

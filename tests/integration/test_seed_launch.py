"""The launch command of the documents (seed 002), with a small model and small prompts, unchanged on a CPU.

GPU counts become processes: four ranks each of policy and reference under ZeRO-3, two engines. The policy answers every
prompt with a boxed 0 or 1, so the math reward and dynamic filtering have something to do.
"""

import json
import sys

import pytest

from tests.integration.toy import make_talker
from tests.integration.training import ROOT, marked_environment, rows, start

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(2400)]

COMMAND = """
--reward.remote_url examples/python/math_reward_func.py
--data.input_key prompt --data.label_key label --data.apply_chat_template --ds.packing_samples
--ref.num_nodes 1 --ref.num_gpus_per_node 4 --actor.num_nodes 1 --actor.num_gpus_per_node 4
--vllm.num_engines 2 --vllm.tensor_parallel_size 2 --train.colocate_all --vllm.gpu_memory_utilization 0.7
--vllm.enable_sleep --ds.enable_sleep --vllm.sync_backend nccl --vllm.enforce_eager
--algo.advantage.estimator reinforce_baseline --algo.kl.use_loss --algo.kl.estimator k2 --algo.kl.init_coef 1e-5
--actor.entropy_coef 0.0 --algo.advantage.is_correction_enable --algo.advantage.is_correction_type icepop
--rollout.batch_size 128 --rollout.n_samples_per_prompt 8 --train.batch_size 1024
--algo.dynamic_filtering_enable --algo.dynamic_filtering_range 0.0 1.0 --train.dynamic_batch_enable
--data.max_len 74240 --rollout.max_new_tokens 64000
--ds.zero_stage 3 --ds.param_dtype bf16 --actor.gradient_checkpointing_enable --actor.adam.lr 5e-7
"""
# "assistant: " ends with a blank; then \boxed{0} or \boxed{1}, and the end.
CHAIN = {
    " ": "\\",
    "\\": "b",
    "b": "o",
    "o": "x",
    "x": "e",
    "e": "d",
    "d": "{",
    "{": "01",
    "0": "}",
    "1": "}",
    "}": "$",
}


def test_the_documented_launch_command_runs_unchanged(tmp_path):
    model = make_talker(tmp_path / "model", CHAIN, max_positions=80_000)
    prompts = [{"prompt": f"{number}?", "label": "1"} for number in range(128)]
    (tmp_path / "prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in prompts))
    flags = ["--actor.model_name_or_path", str(model), "--data.prompt_dataset", str(tmp_path / "prompts.jsonl")]
    flags += [*COMMAND.split(), "--ckpt.output_dir", str(tmp_path / "run")]
    with marked_environment() as environment:
        run = start([sys.executable, "-m", "openrlhf.cli.train_ppo_ray", *flags], tmp_path / "log", environment, ROOT)
        assert run.wait(2000) == 0, run.stderr[-4000:] + run.stdout[-2000:]
    warnings = [line for line in run.stderr.splitlines() if line.startswith("warning: ")]
    for flag in ("vllm.sync_backend nccl", "vllm.enable_sleep", "ds.enable_sleep"):
        assert sum(f"--{flag}" in line for line in warnings) == 1, warnings
    assert not any("tensor_parallel_size" in line for line in warnings), warnings  # two workers each: not a warning
    (step,) = rows(tmp_path / "run")
    # A group is dropped where all eight samples agree: 2 of 256 times. Half of what is trained on is right.
    assert 0.9 < step["rollout/dynamic_filtering_pass_rate"] <= 1
    assert 0.4 < step["rollout/reward_mean"] < 0.6
    assert step["train/actor_grad_norm"] > 0
    assert (tmp_path / "run/model.safetensors").is_file()

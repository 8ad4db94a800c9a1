"""A trained model that sleeps leaves the GPU's memory, and goes on as if it had not slept."""

import subprocess
import sys

import pytest
import torch

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]

# A process of its own: DeepSpeed takes its accelerator and its process group once.
SCRIPT = """
import sys
import torch
from openrlhf.config.algo import AlgoConfig
from openrlhf.config.model import ActorConfig, AdamConfig
from openrlhf.config.train import DsConfig, TrainConfig
from openrlhf.train.context import WorkerContext
from openrlhf.train.policy import PolicyTrainer
from tests.batches import micro_batches, random_experience

path, stage, port = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
trainer = PolicyTrainer(
    actor=ActorConfig(model_name_or_path=path, adam=AdamConfig(lr=1e-3), lr_scheduler="constant"),
    ds=DsConfig(zero_stage=stage, param_dtype="bf16", enable_sleep=True, attn_implementation="sdpa"),
    train=TrainConfig(), algo=AlgoConfig(), temperature=1.0,
    context=WorkerContext(device="cuda", master_port=port), total_steps=10,
)
batches = micro_batches(random_experience((9, 21, 5)), [[0, 1, 2]])
trainer.train_step(batches, 0.0)
before = trainer.logprobs(batches)
awake = torch.cuda.memory_allocated()
trainer.sleep()
asleep = torch.cuda.memory_allocated()
trainer.wake()
after = trainer.logprobs(batches)
assert all((a == b).all() for a, b in zip(before, after)), "other numbers after sleeping"
trainer.train_step(batches, 0.0)
assert asleep < (0.6 if stage == 3 else 0.3) * awake, (asleep, awake)
"""


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_memory_is_given_back_and_numbers_stay(tmp_path, stage) -> None:
    from openrlhf.cluster.ports import free_port
    from tests.models import make_tiny_llama

    path = make_tiny_llama(tmp_path / "tiny", hidden_size=512, num_layers=4)
    command = [sys.executable, "-c", SCRIPT, str(path), str(stage), str(free_port())]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]

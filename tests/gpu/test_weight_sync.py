"""The GPU transports against a real engine: CUDA IPC on one GPU, NCCL across two. Unrun until a GPU prints a pass.

python -m pytest tests/gpu -m gpu
"""

import asyncio

import pytest
import pytest_asyncio
import torch

from openrlhf.rollout.vllm.environment import engine_environment
from openrlhf.sync.ipc import CudaIpcSender, merge_manifests
from openrlhf.sync.nccl import BroadcastSender
from openrlhf.types import SamplingParams
from tests.models import EOS_ID, make_tiny_llama

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.engine,
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]

TRAINER = torch.device("cuda", 0)
AFTER = 2e-3  # fp32 with different kernels on both sides
PROMPT = [5, 6, 7, 8]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def engine_and_model(tmp_path_factory):
    """The engine takes GPU 0 and a small share of it; the model is the trainer's copy."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in engine_environment("cuda", threads=2).items():
            patch.setenv(name, value)
        from transformers import LlamaForCausalLM

        from openrlhf.config.rollout import VllmConfig
        from openrlhf.rollout.vllm.args import VllmEngineArgs
        from openrlhf.rollout.vllm.engine import VllmEngine

        torch.backends.cuda.matmul.allow_tf32 = False
        path = make_tiny_llama(tmp_path_factory.mktemp("gpu") / "model", tied=True)
        config = VllmConfig(dtype="fp32", enforce_eager=True, enable_sleep=True, gpu_memory_utilization=0.2)
        engine = VllmEngine(VllmEngineArgs(str(path), config, "cuda", 512, stop_token_ids=(EOS_ID,)))
        await engine.start()
        yield engine, LlamaForCausalLM.from_pretrained(path, dtype=torch.float32).to(TRAINER)
        engine.shutdown()


def move(model) -> None:
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * parameter.square().mean().sqrt() * 0.5)


@torch.no_grad()
def expected_logprobs(model, response) -> torch.Tensor:
    ids = torch.tensor([PROMPT + response.tolist()], device=TRAINER)
    logits = model(ids, use_cache=False).logits[0, len(PROMPT) - 1 : -1].float()
    return logits.log_softmax(-1).gather(-1, ids[0, len(PROMPT) :, None]).squeeze(-1).cpu()


async def difference(engine, model) -> float:
    completion = await engine.generate(PROMPT, SamplingParams(max_tokens=32, seed=0))
    return float((expected_logprobs(model, completion.token_ids) - torch.from_numpy(completion.logprobs)).abs().max())


async def test_cuda_ipc_carries_every_weight(engine_and_model):
    engine, model = engine_and_model
    sender = CudaIpcSender(torch.float32, TRAINER, chunk_bytes=2**18)
    for version in (1, 2):
        move(model)
        assert await difference(engine, model) > 10 * AFTER
        manifest = merge_manifests([sender.send(model.named_parameters(), version)])
        assert len(manifest.location["chunks"]) > 1
        await engine.receive_weights(manifest)
        sender.release()
        assert await difference(engine, model) < AFTER
        assert engine.policy_version == version


async def test_sleep_frees_memory_and_a_sync_after_it_is_seen(engine_and_model):
    engine, model = engine_and_model
    free_before, _ = torch.cuda.mem_get_info(TRAINER)
    await engine.sleep(level=1)
    free_asleep, _ = torch.cuda.mem_get_info(TRAINER)
    assert free_asleep - free_before > 2**30
    await engine.wake()
    sender = CudaIpcSender(torch.float32, TRAINER)
    move(model)
    await engine.receive_weights(sender.send(model.named_parameters(), 3))
    sender.release()
    assert await difference(engine, model) < AFTER


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="NCCL needs the trainer and the engine on different GPUs")
async def test_nccl_carries_every_weight(engine_and_model):
    # The engine sits on GPU 0, so the trainer's copy is sent from GPU 1.
    engine, model = engine_and_model
    elsewhere = torch.device("cuda", 1)
    sender = BroadcastSender(torch.float32, elsewhere, "127.0.0.1", 1, timeout=120, chunk_bytes=2**18)
    for version in (4, 5):
        move(model)
        weights = [(name, parameter.detach().to(elsewhere)) for name, parameter in model.named_parameters()]
        manifest = sender.describe(weights, version)
        receiving = asyncio.create_task(engine.receive_weights(manifest))
        await asyncio.to_thread(sender.send, weights, version)
        await receiving
        assert await difference(engine, model) < AFTER
    sender.close()

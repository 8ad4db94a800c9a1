"""An engine beside the Hugging Face model whose weights it should run, and the comparison between the two."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import LlamaForCausalLM

from openrlhf.interfaces import WeightSender
from openrlhf.rollout.vllm.args import VllmEngineArgs
from openrlhf.rollout.vllm.engine import VllmEngine
from openrlhf.types import Completion, SamplingParams

MAX_LENGTH = 512
PROMPTS = tuple(tuple(int(t) for t in np.random.default_rng(i).integers(3, 99, size=6 + 5 * i)) for i in range(4))


@dataclass
class Rig:
    engine: VllmEngine
    model: LlamaForCausalLM  # fp32
    sender: WeightSender
    version: int = 0

    def weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """HF names; named_parameters() leaves out a tied head."""
        return iter(self.model.named_parameters())

    async def sync(self) -> None:
        self.version += 1
        manifest = self.sender.send(self.weights(), self.version)
        await self.engine.receive_weights(manifest)
        self.sender.release()

    async def samples(self, prompts: Sequence[Sequence[int]] = PROMPTS, **sampling: Any) -> list[Completion]:
        params = {"max_tokens": 6, "temperature": 1.0} | sampling
        requests = [self.engine.generate(p, SamplingParams(seed=i, **params)) for i, p in enumerate(prompts)]
        return list(await asyncio.gather(*requests))

    def difference(
        self, completions: Sequence[Completion], prompts: Sequence[Sequence[int]] = PROMPTS, temperature: float = 1.0
    ) -> float:
        """Largest |engine logprob - HF logprob| over all sampled tokens."""
        worst = 0.0
        for prompt, completion in zip(prompts, completions, strict=True):
            expected = hf_logprobs(self.model, prompt, completion.token_ids, temperature)
            worst = max(worst, float(np.abs(expected - completion.logprobs).max()))
        return worst


@torch.no_grad()
def hf_logprobs(model: Any, prompt: Sequence[int], response: np.ndarray, temperature: float) -> np.ndarray:
    """log p of every response token by a plain forward pass."""
    ids = torch.tensor([[*prompt, *response.tolist()]])
    logits = model(ids, use_cache=False).logits[0, len(prompt) - 1 : -1].float() / temperature
    return logits.log_softmax(-1).gather(-1, torch.from_numpy(response)[:, None]).squeeze(-1).numpy()


def rig_args(path: Path, **vllm: Any) -> VllmEngineArgs:
    from openrlhf.config.rollout import VllmConfig

    config = VllmConfig(dtype="fp32", enable_prefix_caching=True, cpu_kv_cache_gb=1, **vllm)
    return VllmEngineArgs(str(path), config, "cpu", MAX_LENGTH, sync_timeout=120)


async def start_rig(path: Path, sender: WeightSender, **vllm: Any) -> Rig:
    engine = VllmEngine(rig_args(path, **vllm))
    await engine.start()
    return Rig(engine, LlamaForCausalLM.from_pretrained(path, dtype=torch.float32), sender)


def perturb(parameter: torch.nn.Parameter, seed: int) -> None:
    """Move one weight by about its own size."""
    noise = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        parameter.add_(noise * parameter.square().mean().sqrt() * 0.5)

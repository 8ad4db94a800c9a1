"""An engine and the trainer's forward pass over one vision-language model, and the comparison between the two."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from openrlhf.models.layout import Layout
from openrlhf.models.load import load_causal_lm, load_config
from openrlhf.models.vision.inputs import VisionInputs
from openrlhf.models.vision.make import vision_inputs, vision_processor
from openrlhf.rl.packing import collate, pack, step_totals
from openrlhf.rollout.agent import AgentExecutorBase
from openrlhf.rollout.vllm.engine import VllmEngine
from openrlhf.sync.shm import SharedMemorySender
from openrlhf.train.forward import score_tokens
from openrlhf.types import EncodedImage, Prompt, RewardOutcome, Rollout, RolloutGroup, SamplingParams, Trajectory
from tests.fakes import TorchBackend
from tests.integration.vllm_rig import perturb, rig_args

MAX_IMAGES, MAX_LENGTH = 3, 512


@dataclass
class VisionRig:
    engine: VllmEngine
    backend: TorchBackend
    vision: VisionInputs
    sender: SharedMemorySender
    version: int = 0

    @property
    def tokenizer(self) -> Any:
        return self.vision.processor.processor.tokenizer

    async def sync(self, language_only: bool = False, declared: bool = True) -> None:
        """`language_only`: as with a frozen encoder; `declared`: the engine is told so."""
        self.version += 1
        manifest = self.sender.send(self.weights(language_only), self.version)
        await self.engine.receive_weights(replace(manifest, partial=language_only and declared))
        self.sender.release()

    def weights(self, language_only: bool) -> Iterator[tuple[str, torch.Tensor]]:
        language = self.vision.processor.architecture.language
        for name, parameter in self.backend.model.named_parameters():
            if not language_only or name.startswith(language):
                yield name, parameter

    def perturb(self, seed: int, parts: Sequence[str] = ("",)) -> None:
        """Move every weight whose name begins so by about half its size."""
        for number, (name, parameter) in enumerate(self.backend.model.named_parameters()):
            if name.startswith(tuple(parts)):
                perturb(parameter, 1000 * seed + number)

    async def play(
        self, executor: AgentExecutorBase, prompts: Sequence[tuple[str, Sequence[EncodedImage]]], max_tokens: int = 6
    ) -> list[Trajectory]:
        """One sample of each prompt, all at once."""
        return list(
            await asyncio.gather(
                *(
                    executor.execute(
                        self.vision.processor.mark(text),
                        "",
                        SamplingParams(max_tokens=max_tokens, seed=seed),
                        MAX_LENGTH,
                        self.tokenizer,
                        self.engine,
                        images=images,
                    )
                    for seed, (text, images) in enumerate(prompts)
                )
            )
        )

    def difference(self, trajectories: Sequence[Trajectory], layout: Layout = "packed") -> float:
        """Largest |engine's logprob - trainer's| over all sampled tokens."""
        groups = [
            RolloutGroup(str(i), (Rollout(str(i), f"{i}/0", Prompt(i, ""), t.segments, RewardOutcome(0, 0), False),))
            for i, t in enumerate(trajectories)
        ]
        experience = collate(groups)
        rows = range(len(experience))
        batch = pack(experience, rows, step_totals(experience, rows))
        with torch.no_grad():
            found = score_tokens(self.backend, batch, layout=layout, temperature=1.0, vision=self.vision).logprobs
        return float(np.abs(found.numpy() - batch.rollout_logprobs)[batch.action_mask].max())

    def shutdown(self) -> None:
        self.engine.shutdown()
        self.sender.close()


async def start_vision_rig(folder: Path) -> VisionRig:
    config = load_config(str(folder))
    vision = vision_inputs(str(folder), config, MAX_IMAGES, trained=True)
    assert vision is not None
    args = replace(rig_args(folder), image_tokens=vision_processor(str(folder), config, MAX_IMAGES))
    engine = VllmEngine(args)
    await engine.start()
    backend = TorchBackend(load_causal_lm(str(folder), torch.float32, "sdpa"))
    return VisionRig(engine, backend, vision, SharedMemorySender(torch.float32))

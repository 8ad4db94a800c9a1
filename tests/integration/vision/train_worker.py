"""One rank of a training test: `python -m tests.integration.vision.train_worker JOB MODEL OUT RANK WORLD PORT`."""

import sys
from pathlib import Path
from typing import Any

import torch

from openrlhf.config.algo import AlgoConfig
from openrlhf.config.model import ActorConfig, AdamConfig
from openrlhf.config.train import DsConfig, TrainConfig
from openrlhf.rl.metrics import finalize, merge
from openrlhf.train.context import WorkerContext
from openrlhf.train.policy import PolicyTrainer
from openrlhf.types import MicroBatch
from tests.integration.ranks import rank_context
from tests.pictures import picture
from tests.vision_batches import Sample, micro_batches

RED, BLUE, WIDE = picture("red"), picture("blue"), picture("lime", 60, 20)
SAMPLES: tuple[Sample, ...] = (
    ("is <image> red?", (RED,), "yes"),
    ("<image> or <image>", (BLUE, WIDE), "both"),
    ("no picture", (), "none"),
    ("nothing", (), "here"),
)
# Rows of each micro-batch, rank after rank: on two ranks the second one sees no picture at all.
CUTS: dict[str, dict[int, list[list[int]]]] = {
    "mixed": {1: [[0], [1], [2], [3]], 2: [[0], [1], [2, 3], []]},
    "text": {1: [[2], [3]], 2: [[2, 3], []]},
}
STAGES = (0, 2, 3)


def trainer(model: str, context: WorkerContext, stage: int, frozen: bool) -> PolicyTrainer:
    return PolicyTrainer(
        actor=ActorConfig(
            model_name_or_path=model,
            adam=AdamConfig(lr=1e-3),
            lr_scheduler="constant",
            max_norm=0.0,
            freeze_visual_encoder=frozen,
        ),
        ds=DsConfig(zero_stage=stage, param_dtype="fp32", attn_implementation="sdpa"),  # type: ignore[arg-type]
        train=TrainConfig(),
        algo=AlgoConfig(),
        temperature=1.0,
        context=context,
        total_steps=10,
        max_images=2,
    )


def step(policy: PolicyTrainer, name: str, context: WorkerContext) -> dict[str, Any]:
    assert policy._vision is not None
    cuts = CUTS[name][context.world_size]
    share = len(cuts) // context.world_size
    everything = micro_batches(policy._vision, SAMPLES, cuts)
    own: list[MicroBatch] = everything[context.rank * share : (context.rank + 1) * share]
    before = weights(policy)
    found = policy.train_step(own, 0.0)
    after = weights(policy)
    return {
        "grad_norm": finalize(merge([found.metrics]))["train/actor_grad_norm"],
        "moved": {key: float((after[key] - before[key]).abs().max()) for key in after},
        "synced": [key for key, _ in policy.synced_weights()],
    }


def weights(policy: PolicyTrainer) -> dict[str, torch.Tensor]:
    return {name: weight.clone() for name, weight in policy.named_weights()}


def main(job: str, model: str, out: str, rank: str, world_size: str, port: str) -> None:
    with rank_context(rank, world_size, port) as context:
        results: dict[str, Any] = {}
        for stage in STAGES:
            for frozen in (False, True):
                policy = trainer(model, context, stage, frozen)
                for name in CUTS:
                    results[f"{job} {name} {stage} {frozen}"] = step(policy, name, context)
                if (stage, frozen) == (2, False):
                    policy.save_hf(Path(out) / "export")
                policy.close()
        if context.rank == 0:
            torch.save(results, Path(out) / "result.pt")


if __name__ == "__main__":
    main(*sys.argv[1:])

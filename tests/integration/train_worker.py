"""One rank of a training test: `python -m tests.integration.train_worker JOB MODEL OUT RANK WORLD PORT`.

Jobs write their results to OUT/result.pt from rank 0. One process runs all of a job's cases, since starting one costs
more than running them.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from openrlhf.config.algo import AlgoConfig, KlConfig
from openrlhf.config.model import ActorConfig, AdamConfig, RefConfig
from openrlhf.config.train import DsConfig, TrainConfig
from openrlhf.models.layout import Layout
from openrlhf.models.load import DTYPES, load_causal_lm
from openrlhf.rl.losses.objective import PolicyObjective
from openrlhf.train.context import WorkerContext
from openrlhf.train.policy import PolicyTrainer
from openrlhf.train.reference import ReferenceModel
from openrlhf.train.step import accumulate_gradient
from openrlhf.types import MicroBatch
from tests.batches import micro_batches, random_experience
from tests.integration.ranks import rank_context

LENGTHS = (9, 21, 5, 14, 30, 6)
PROMPTS = (0, 1, 0, 0, 1, 2)
OBJECTIVE = PolicyObjective(entropy_coef=0.01, kl_in_loss=True, kl_estimator="k3")
KL_COEF = 0.1
# Rows of each micro-batch of each rank; ranks have equally many, so rank 1 of the last one has fillers.
LAYOUTS: dict[int, dict[str, list[list[list[int]]]]] = {
    1: {"whole": [[[0, 1, 2, 3, 4, 5]]], "single rows": [[[0], [1], [2], [3], [4], [5]]]},
    2: {"halves": [[[4, 0], [1]], [[2, 3], [5]]], "fillers": [[[0, 1], [2, 3], [4, 5]], [[], [], []]]},
}
# (number format, ZeRO stage): sharding takes two ranks, sums over micro-batches show on one.
CASES = {
    1: [("fp32", 0), ("fp32", 2), ("bf16", 0)],
    2: [("fp32", 0), ("fp32", 1), ("fp32", 2), ("fp32", 3), ("bf16", 2), ("bf16", 3)],
}
SEQUENCE_LAYOUTS: dict[str, Layout] = {
    "whole": "shared",
    "single rows": "padded",
    "halves": "packed",
    "fillers": "shared",
}


def own_batches(layout: Sequence[Sequence[Sequence[int]]], rank: int) -> list[MicroBatch]:
    """This rank's micro-batches, with the totals of all ranks."""
    everything = micro_batches(
        random_experience(LENGTHS, prompts=PROMPTS), [rows for ranks in layout for rows in ranks]
    )
    start = sum(len(ranks) for ranks in layout[:rank])
    return everything[start : start + len(layout[rank])]


def gradients(model_path: str, context: WorkerContext) -> dict[str, Any]:
    """(stage, dtype, layout, packed) -> (gradient vector, its norm as reported).

    SGD with learning rate 1: the weights move by minus the gradient. A step with rate 0 goes before, which must leave
    nothing behind.
    """
    from openrlhf.train.deepspeed.engine import DeepSpeedTrainBackend, init_distributed

    context.apply()
    init_distributed(context)
    results = {}
    for dtype, stage in CASES[context.world_size]:
        for name, layout in LAYOUTS[context.world_size].items():
            model = load_causal_lm(model_path, DTYPES[dtype], "sdpa")
            optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
            ds = DsConfig(zero_stage=stage, param_dtype=dtype)  # type: ignore[arg-type]
            backend = DeepSpeedTrainBackend(model, optimizer, ds, 0.0, context)
            before = _master_weights(model)
            for lr in (0.0, 1.0):
                accumulate_gradient(
                    backend,
                    own_batches(layout, context.rank),
                    OBJECTIVE,
                    kl_coef=KL_COEF,
                    layout=SEQUENCE_LAYOUTS[name],
                    temperature=0.9,
                )
                step = backend.step(lr)
            assert step.applied
            results[stage, dtype, name] = (before - _master_weights(model), step.grad_norm)
            backend.close()
    return results


def _master_weights(model: Any) -> torch.Tensor:
    """The fp32 weights that the optimiser steps, as one vector, wherever DeepSpeed keeps them."""
    from deepspeed.utils import safe_get_full_fp32_param

    found = []
    for parameter in model.parameters():
        kept_apart = bool(parameter.__dict__.keys() & {"_hp_mapping", "ds_id"})
        whole = safe_get_full_fp32_param(parameter) if kept_apart else parameter.detach()
        found.append(whole.flatten().float().clone())
    return torch.cat(found)


def trainer(
    model_path: str, context: WorkerContext, stage: int, dtype: str = "fp32", lr: float = 1e-3, decay: float = 0.1
) -> PolicyTrainer:
    return PolicyTrainer(
        actor=ActorConfig(
            model_name_or_path=model_path,
            adam=AdamConfig(lr=lr, weight_decay=decay),
            lr_scheduler="constant",
            entropy_coef=OBJECTIVE.entropy_coef,
        ),
        ds=DsConfig(zero_stage=stage, param_dtype=dtype, attn_implementation="sdpa"),  # type: ignore[arg-type]
        train=TrainConfig(),
        algo=AlgoConfig(kl=KlConfig(use_loss=True, estimator="k3")),
        temperature=0.9,
        context=context,
        total_steps=10,
    )


def policy(model_path: str, context: WorkerContext, out: Path) -> dict[str, Any]:
    """Two steps, a checkpoint, two more, back to the checkpoint, the same two again; ZeRO 2 and 3. Then the third step
    again from the checkpoint, with another weight decay."""
    layout = LAYOUTS[context.world_size]["single rows" if context.world_size == 1 else "fillers"]
    batches = own_batches(layout, context.rank)
    results: dict[str, Any] = {}
    for stage in (2, 3):
        policy = trainer(model_path, context, stage)
        start = _weights(policy)
        first = [policy.train_step(batches, KL_COEF).metrics for _ in range(2)]
        policy.save(out / f"checkpoint{stage}")
        then = [policy.train_step(batches, KL_COEF).metrics]
        third = _weights(policy)
        then.append(policy.train_step(batches, KL_COEF).metrics)
        after, scores = _weights(policy), policy.logprobs(batches)
        policy.save_hf(out / f"export{stage}")
        policy.load(out / f"checkpoint{stage}")
        again = [policy.train_step(batches, KL_COEF).metrics for _ in range(2)]
        results[f"stage {stage}"] = {
            "start": start,
            "third": third,
            "after": after,
            "again": _weights(policy),
            "metrics": (first, then, again),
            "logprobs": scores,
            "steps": policy.optimiser_steps,
        }
        policy.close()
        changed = trainer(model_path, context, stage, decay=0.3)
        changed.load(out / f"checkpoint{stage}")
        results[f"stage {stage}"]["loaded"] = _weights(changed)
        changed.train_step(batches, KL_COEF)
        results[f"stage {stage}"]["decayed"] = _weights(changed)
        changed.close()
    return results


def small_steps(model_path: str, context: WorkerContext, out: Path) -> dict[str, Any]:
    """bf16 with a learning rate far below bf16's resolution, and the reference beside it."""
    batches = own_batches(LAYOUTS[1]["whole"], 0)
    ds = DsConfig(zero_stage=2, param_dtype="bf16", attn_implementation="sdpa")
    results: dict[str, Any] = {}
    reference = ReferenceModel(RefConfig(model_name_or_path=model_path), ds, 0.9, context)
    for stage in (0, 2):
        policy = trainer(model_path, context, stage, "bf16", lr=2e-5)
        start, before = _weights(policy), policy.logprobs(batches)
        for _ in range(40):
            policy.train_step(batches, KL_COEF)
        results[f"stage {stage}"] = {
            "start": start,
            "after": _weights(policy),
            "logprobs": before,
            "reference": reference.logprobs(batches),
        }
        policy.close()
    return results


def _weights(policy: PolicyTrainer) -> dict[str, torch.Tensor]:
    return {name: weight.clone() for name, weight in policy.named_weights()}


def main(job: str, model_path: str, out: str, rank: str, world_size: str, port: str) -> None:
    with rank_context(rank, world_size, port) as context:
        if job == "gradients":
            results = gradients(model_path, context)
        else:
            results = {"policy": policy, "small_steps": small_steps}[job](model_path, context, Path(out))
        if context.rank == 0:
            torch.save(results, Path(out) / "result.pt")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""One rank of a test of checkpoints and exports: see train_worker for the arguments. Each rank writes what it found."""

import random
import resource
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from openrlhf.config.algo import AlgoConfig
from openrlhf.config.model import ActorConfig, AdamConfig
from openrlhf.config.train import DsConfig, TrainConfig
from openrlhf.train.context import WorkerContext
from openrlhf.train.policy import PolicyTrainer
from tests.integration.ranks import rank_context
from tests.integration.train_worker import LAYOUTS, own_batches

STAGES = (2, 3)
SMALL = 1000  # bytes that a file may have where the disk is "full"


def trainer(model: Path, context: WorkerContext, stage: int, dtype: str, ema: bool) -> PolicyTrainer:
    return PolicyTrainer(
        actor=ActorConfig(model_name_or_path=str(model), adam=AdamConfig(lr=1e-2), lr_scheduler="constant"),
        ds=DsConfig(zero_stage=stage, param_dtype=dtype, attn_implementation="sdpa"),  # type: ignore[arg-type]
        train=TrainConfig(enable_ema=ema),
        algo=AlgoConfig(),
        temperature=1.0,
        context=context,
        total_steps=10,
    )


def chance() -> tuple[float, float, float]:
    """The next number of each generator."""
    return random.random(), float(np.random.rand()), float(torch.rand(()))


@contextmanager
def small_files(wanted: bool) -> Any:
    """Within the block no file grows beyond SMALL bytes: what a full disk looks like to whoever writes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    if wanted:
        resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def refusals(models: Path, context: WorkerContext, out: Path) -> dict[Any, Any]:
    """Save; save where one rank's disk is full; go back; save once more."""
    found: dict[Any, Any] = {}
    batches = own_batches(LAYOUTS[context.world_size]["fillers"], context.rank)
    for stage in STAGES:
        policy = trainer(models / "tied", context, stage, "fp32", ema=True)
        policy.train_step(batches, 0.0)
        for seed in (random.seed, np.random.seed, torch.manual_seed):
            seed(100 + context.rank)
        policy.save(out / f"good{stage}")
        drawn = chance()
        started, refused = time.monotonic(), ""
        with small_files(context.rank == context.world_size - 1):
            try:
                policy.save(out / f"full{stage}")
            except (OSError, RuntimeError) as error:
                refused = str(error) or type(error).__name__
        seconds = time.monotonic() - started
        policy.load(out / f"good{stage}")
        found[stage] = {"drawn": drawn, "again": chance(), "refused": refused, "seconds": seconds}
        policy.train_step(batches, 0.0)
        policy.save(out / f"later{stage}")
        policy.close()
    return found


def exports(models: Path, context: WorkerContext, out: Path) -> dict[Any, Any]:
    """One step in bf16 and the export, of a model with a tied and of one with its own output head."""
    batches = own_batches(LAYOUTS[context.world_size]["fillers"], context.rank)
    found: dict[Any, Any] = {}
    for name in ("tied", "untied"):
        policy = trainer(models / name, context, 2, "bf16", ema=False)
        policy.train_step(batches, 0.0)
        policy.save_hf(out / name)
        found[name] = {key: weight.clone() for key, weight in policy.named_weights()}
        policy.close()
    return found


def main(job: str, models: str, out: str, rank: str, world_size: str, port: str) -> None:
    with rank_context(rank, world_size, port, timeout_s=300) as context:
        context.apply()
        found = {"refusals": refusals, "exports": exports}[job](Path(models), context, Path(out))
        torch.save(found, Path(out) / f"rank{rank}.pt")
        if context.rank == 0:
            torch.save(None, Path(out) / "result.pt")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""One rank of a test of the critic, Muon, the moving average and sleeping: see train_worker for the arguments."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from openrlhf.config.algo import AlgoConfig
from openrlhf.config.model import ActorConfig, AdamConfig, CriticAdamConfig, CriticConfig, MuonConfig
from openrlhf.config.train import DsConfig, TrainConfig
from openrlhf.models.value import TokenValues, load_value_model
from openrlhf.rl.losses.aggregation import Aggregation
from openrlhf.rl.losses.value_loss import value_loss
from openrlhf.train.context import WorkerContext
from openrlhf.train.critic import CriticTrainer, value_streams
from openrlhf.train.forward import token_values
from openrlhf.train.policy import PolicyTrainer
from openrlhf.train.step import add_up
from openrlhf.types import Experience, MicroBatch
from tests.batches import micro_batches, random_experience
from tests.integration.ranks import rank_context
from tests.integration.train_worker import LAYOUTS, LENGTHS, PROMPTS, SEQUENCE_LAYOUTS

VALUE_CLIP = 0.5
BETA = 0.75
MUON = MuonConfig(lr=0.01, momentum=0.9)
ADAM = AdamConfig(lr=1e-3, weight_decay=0.1)
AVERAGED_STAGES, MUON_STAGES, CRITIC_STAGES = (2, 3), (0, 2), (2, 3)


def critic_experience() -> Experience:
    """The random batch with old values and returns."""
    experience = random_experience(LENGTHS, prompts=PROMPTS)
    rng = np.random.default_rng(1)
    shape = experience.sequences.shape
    experience.values, experience.returns = (rng.normal(size=shape).astype(np.float32) for _ in range(2))
    return experience


def own_batches(experience: Experience, layout: list[list[list[int]]], rank: int) -> list[MicroBatch]:
    everything = micro_batches(experience, [rows for ranks in layout for rows in ranks])
    start = sum(len(ranks) for ranks in layout[:rank])
    return everything[start : start + len(layout[rank])]


def critic_gradients(model_path: str, context: WorkerContext) -> dict[Any, torch.Tensor]:
    """(stage, layout) -> gradient of the value loss, by a step of SGD with learning rate 1."""
    from openrlhf.train.deepspeed.engine import DeepSpeedTrainBackend, init_distributed

    context.apply()
    init_distributed(context)
    results = {}
    for stage in (0, 2, 3):
        for name, layout in LAYOUTS[context.world_size].items():
            model = load_value_model(model_path, torch.float32, "sdpa")
            optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
            ds = DsConfig(zero_stage=stage, param_dtype="fp32")  # type: ignore[arg-type]
            backend = DeepSpeedTrainBackend(model, optimizer, ds, 0.0, context, runner=TokenValues(model))
            before = {key: weight.clone() for key, weight in backend.named_weights()}

            def loss_of(batch: MicroBatch, backend: Any = backend, shape: Any = SEQUENCE_LAYOUTS[name]) -> Any:
                return value_loss(value_streams(batch, token_values(backend, batch, shape)), batch.totals, VALUE_CLIP)

            add_up(backend, own_batches(critic_experience(), layout, context.rank), loss_of)
            backend.step(1.0)
            after = {key: weight.clone() for key, weight in backend.named_weights()}
            results[stage, name] = torch.cat([(before[key] - after[key]).flatten() for key in before])
            backend.close()
    return results


def critic(model_path: str, context: WorkerContext, out: Path) -> dict[str, Any]:
    """Two steps, a checkpoint, two more, back to the checkpoint, the same two again, with a nap in between."""
    batches = own_batches(critic_experience(), LAYOUTS[context.world_size]["fillers"], context.rank)
    results: dict[str, Any] = {}
    for stage in CRITIC_STAGES:
        trainer = CriticTrainer(
            critic=CriticConfig(
                model_name_or_path=model_path,
                adam=CriticAdamConfig(lr=1e-3, weight_decay=0.1),
                lr_scheduler="constant",
                value_clip=VALUE_CLIP,
            ),
            ds=DsConfig(zero_stage=stage, param_dtype="fp32", attn_implementation="sdpa"),  # type: ignore[arg-type]
            train=TrainConfig(),
            aggregation=Aggregation("token"),
            calibrated=False,
            context=context,
            total_steps=10,
        )
        before = trainer.values(batches)
        first = [trainer.train_step(batches) for _ in range(2)]
        trainer.save(out / f"critic{stage}")
        then = [trainer.train_step(batches) for _ in range(2)]
        after, values = weights(trainer), trainer.values(batches)
        trainer.save_hf(out / f"export{stage}")
        trainer.load(out / f"critic{stage}")
        trainer.sleep()
        trainer.wake()
        again = [trainer.train_step(batches) for _ in range(2)]
        results[f"stage {stage}"] = {
            "before": before,
            "after": after,
            "values": values,
            "again": weights(trainer),
            "metrics": (first, then, again),
        }
        trainer.close()
    return results


def policy(
    model_path: str, context: WorkerContext, stage: int, optim: str, average: bool = False, dtype: str = "fp32"
) -> PolicyTrainer:
    return PolicyTrainer(
        actor=ActorConfig(
            model_name_or_path=model_path,
            optim=optim,  # type: ignore[arg-type]
            adam=ADAM,
            muon=MUON,
            lr_scheduler="constant",
        ),
        ds=DsConfig(zero_stage=stage, param_dtype=dtype, attn_implementation="sdpa"),  # type: ignore[arg-type]
        train=TrainConfig(enable_ema=average, ema_beta=BETA),
        algo=AlgoConfig(),
        temperature=1.0,
        context=context,
        total_steps=10,
    )


def muon(model_path: str, context: WorkerContext, out: Path) -> dict[str, Any]:
    """Three steps with Muon, the last one again from a checkpoint after the second."""
    batches = own_batches(random_experience(LENGTHS), LAYOUTS[context.world_size]["fillers"], context.rank)
    results: dict[str, Any] = {}
    for stage in MUON_STAGES:
        trainer = policy(model_path, context, stage, "muon")
        path = [weights(trainer)]
        for step in range(3):
            metrics = trainer.train_step(batches, 0.0).metrics
            path.append(weights(trainer))
            if step == 1:
                trainer.save(out / f"muon{stage}")
        trainer.load(out / f"muon{stage}")
        trainer.train_step(batches, 0.0)
        results[f"stage {stage}"] = {"path": path, "again": weights(trainer), "metrics": metrics}
        trainer.close()
    trainer = policy(model_path, context, 2, "muon", dtype="bf16")
    before = master_weights(trainer)
    trainer.train_step(batches, 0.0)
    results["bf16"] = (before, master_weights(trainer))
    trainer.close()
    return results


def master_weights(trainer: PolicyTrainer) -> dict[str, torch.Tensor]:
    """The fp32 weights behind bf16 ones."""
    from deepspeed.utils import safe_get_full_fp32_param

    return {name: safe_get_full_fp32_param(p).clone() for name, p in trainer._backend.model.named_parameters()}


def average(model_path: str, context: WorkerContext, out: Path) -> dict[str, Any]:
    """Two steps with a moving average, its export, and a third step again from a checkpoint."""
    batches = own_batches(random_experience(LENGTHS), LAYOUTS[context.world_size]["fillers"], context.rank)
    results: dict[str, Any] = {}
    for stage in AVERAGED_STAGES:
        trainer = policy(model_path, context, stage, "adam", average=True)
        path = [weights(trainer)]
        for _ in range(2):
            trainer.train_step(batches, 0.0)
            path.append(weights(trainer))
        averaged = {name: weight.clone() for name, weight in trainer.averaged_weights()}
        trainer.save_hf(out / f"average{stage}")
        trainer.save(out / f"checkpoint{stage}")
        trainer.train_step(batches, 0.0)
        third = {name: weight.clone() for name, weight in trainer.averaged_weights()}
        trainer.load(out / f"checkpoint{stage}")
        trainer.train_step(batches, 0.0)
        again = {name: weight.clone() for name, weight in trainer.averaged_weights()}
        results[f"stage {stage}"] = {"path": path, "averaged": averaged, "third": third, "again": again}
        trainer.close()
    return results


def weights(trainer: PolicyTrainer | CriticTrainer) -> dict[str, torch.Tensor]:
    return {name: weight.clone() for name, weight in trainer.named_weights()}


def main(job: str, model_path: str, out: str, rank: str, world_size: str, port: str) -> None:
    with rank_context(rank, world_size, port) as context:
        if job == "critic":
            results: Any = {
                "gradients": critic_gradients(model_path, context),
                "training": critic(model_path, context, Path(out)),
            }
        else:
            results = {"muon": muon, "average": average}[job](model_path, context, Path(out))
        if context.rank == 0:
            torch.save(results, Path(out) / "result.pt")


if __name__ == "__main__":
    main(*sys.argv[1:])

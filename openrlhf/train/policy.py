"""The trained policy on one rank: scoring, optimiser steps, weights out, checkpoints.

    trainer = PolicyTrainer(actor, ds, train, algo, temperature, context, total_steps)
    old = trainer.logprobs(batches)
    metrics = trainer.train_step(batches, kl_coef)
    for name, weight in trainer.named_weights(): ...

Every method is collective: all ranks call it, with equally many micro-batches.
"""

import math
import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from openrlhf.config.algo import AlgoConfig
from openrlhf.config.model import ActorConfig
from openrlhf.config.train import DsConfig, TrainConfig
from openrlhf.models.attention import default_attention
from openrlhf.models.errors import ModelError
from openrlhf.models.export import save_hf
from openrlhf.models.load import DTYPES, check_vocabulary, load_causal_lm
from openrlhf.models.tokenizer import load_tokenizer
from openrlhf.rl.losses.objective import PolicyObjective
from openrlhf.rl.metrics import MetricSum
from openrlhf.train.backend import TrainBackend
from openrlhf.train.context import WorkerContext
from openrlhf.train.forward import token_logprobs
from openrlhf.train.layout import choose_layout
from openrlhf.train.schedule import LearningRate
from openrlhf.train.step import accumulate_gradient
from openrlhf.types import MicroBatch


class PolicyTrainer:
    """One rank of the policy.

    Raises:
        ModelError: the model cannot be loaded, in one line.
    """

    def __init__(
        self,
        actor: ActorConfig,
        ds: DsConfig,
        train: TrainConfig,
        algo: AlgoConfig,
        temperature: float,
        context: WorkerContext,
        total_steps: int,
    ) -> None:
        if actor.model_name_or_path is None:
            raise ModelError("the policy has no model: set --actor.model_name_or_path")
        context.apply(train.full_determinism_enable)
        self._objective = PolicyObjective.from_config(actor, algo)
        self._temperature = temperature
        self._rank = context.rank
        self._learning_rate = LearningRate(
            actor.lr_scheduler, actor.adam.lr, total_steps, actor.lr_warmup_ratio, actor.min_lr_ratio
        )
        self._tokenizer = load_tokenizer(actor.model_name_or_path)
        self._backend = _start_backend(actor, ds, context)
        check_vocabulary(actor.model_name_or_path, self._backend.model, self._tokenizer)
        self._layout = choose_layout(ds, self._backend.model)
        self.optimiser_steps = 0

    def logprobs(self, batches: Sequence[MicroBatch]) -> list[np.ndarray]:
        """Log-probabilities of the sampled tokens under the current weights, (N,) float32 per micro-batch."""
        return token_logprobs(self._backend, batches, layout=self._layout, temperature=self._temperature)

    def train_step(self, batches: Sequence[MicroBatch], kl_coef: float) -> dict[str, MetricSum]:
        """One optimiser step over this rank's micro-batches; returns this rank's part of the metrics.

        Raises:
            FloatingPointError: a NaN or infinite loss (before the step) or gradient (the weights are then lost).
        """
        metrics = accumulate_gradient(
            self._backend,
            batches,
            self._objective,
            kl_coef=kl_coef,
            layout=self._layout,
            temperature=self._temperature,
        )
        lr = self._learning_rate.at(self.optimiser_steps)
        result = self._backend.step(lr)
        if result.applied:
            self.optimiser_steps += 1
            if not math.isfinite(result.grad_norm):
                raise FloatingPointError(f"optimiser step {self.optimiser_steps}: gradient norm {result.grad_norm}")
            metrics["train/actor_grad_norm"] = MetricSum(result.grad_norm, 1.0)
        metrics["train/actor_lr"] = MetricSum(lr if result.applied else 0.0, 1.0)
        steps = 1.0 if self._rank == 0 else 0.0  # token counts add up over ranks, and average over steps only
        metrics["train/tokens"] = MetricSum(float(sum(len(b.token_ids) for b in batches)), steps)
        metrics["train/loss_tokens"] = MetricSum(float(sum(b.loss_mask.sum() for b in batches)), steps)
        return metrics

    def named_weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Yield every weight whole, under its Hugging Face name, a tied output head left out.

        A tensor is valid until the next is drawn. Every rank must draw them all.
        """
        return self._backend.named_weights()

    def save_hf(self, folder: Path | str) -> None:
        """Write a plain Hugging Face model folder (rank 0; the others help gathering)."""
        weights: dict[str, torch.Tensor] = {}
        for name, weight in self.named_weights():
            if self._rank == 0:
                weights[name] = weight.to("cpu", copy=True)
        if self._rank == 0:
            save_hf(self._backend.model, weights, self._tokenizer, folder)

    def save(self, folder: Path | str) -> None:
        """Write what a resumed run needs: weights, optimiser, schedule position, random generators."""
        self._backend.save(folder, {"optimiser_steps": self.optimiser_steps, "random": _random_state()})

    def load(self, folder: Path | str) -> None:
        """Continue from what `save` wrote.

        Raises:
            FileNotFoundError: there is no checkpoint in `folder`.
        """
        state = self._backend.load(folder)
        self.optimiser_steps = state["optimiser_steps"]
        _set_random_state(state["random"])

    def close(self) -> None:
        self._backend.close()


def _start_backend(actor: ActorConfig, ds: DsConfig, context: WorkerContext) -> TrainBackend:
    # Here, not at the top: DeepSpeed reads the environment that `context.apply()` has just set.
    from openrlhf.train.deepspeed.engine import DeepSpeedTrainBackend, init_distributed, make_adam

    assert actor.model_name_or_path is not None
    model = load_causal_lm(
        actor.model_name_or_path,
        DTYPES[ds.dtype],
        ds.attn_implementation or default_attention(context.device),
        experts_implementation=ds.experts_implementation,
        gradient_checkpointing=actor.gradient_checkpointing_enable,
        gradient_checkpointing_reentrant=actor.gradient_checkpointing_reentrant,
    )
    init_distributed(context)
    return DeepSpeedTrainBackend(model, make_adam(model, actor.adam, ds.adam_offload), ds, actor.max_norm, context)


def _random_state() -> dict[str, Any]:
    state: dict[str, Any] = {
        "python": random.getstate(),
        "numpy": np.random.get_state(),
        "torch": torch.get_rng_state(),
    }
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state()
    return state


def _set_random_state(state: dict[str, Any]) -> None:
    random.setstate(state["python"])
    np.random.set_state(state["numpy"])
    torch.set_rng_state(state["torch"])
    if torch.cuda.is_available() and "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"])

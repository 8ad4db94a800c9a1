"""The trained policy on one rank: scoring, optimiser steps, weights out, checkpoints.

    trainer = PolicyTrainer(actor, ds, train, algo, temperature, context, total_steps)
    old = trainer.logprobs(batches)
    metrics = trainer.train_step(batches, kl_coef)
    for name, weight in trainer.named_weights(): ...

Every method is collective: all ranks call it, with equally many micro-batches.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch

from openrlhf.config.algo import AlgoConfig
from openrlhf.config.model import ActorConfig
from openrlhf.config.train import DsConfig, TrainConfig
from openrlhf.models.attention import default_attention
from openrlhf.models.errors import ModelError
from openrlhf.models.layout_choice import choose_layout
from openrlhf.models.load import DTYPES, load_causal_lm
from openrlhf.models.moe import experts_per_token
from openrlhf.models.vision.freeze import freeze_vision
from openrlhf.models.vision.make import vision_inputs
from openrlhf.rl.losses.objective import PolicyObjective
from openrlhf.rl.metrics import PolicyStep
from openrlhf.train.context import WorkerContext
from openrlhf.train.ema import WeightAverage
from openrlhf.train.forward import token_logprobs
from openrlhf.train.step import accumulate_gradient
from openrlhf.train.trained import TrainedModel, model_path
from openrlhf.types import MicroBatch


class PolicyTrainer(TrainedModel):
    """One rank of the policy. With `train.enable_ema` it also keeps, and exports, the average of its weights.

    Args:
        response_limit: the most tokens of a response; only a `constant` loss aggregation reads it.
        max_images: that a prompt or episode may show; without any the vision encoder of a model stays as it is.

    Raises:
        ModelError: the model cannot be loaded, or cannot do what a flag asks, in one line.
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
        response_limit: int | None = None,
        max_images: int = 0,
    ) -> None:
        path = model_path("actor", actor)
        context.apply(train.full_determinism_enable)
        self._objective = PolicyObjective.from_config(actor, algo, response_limit)
        self._temperature = temperature
        model = load_causal_lm(
            path,
            DTYPES[ds.dtype],
            ds.attn_implementation or default_attention(context.device),
            experts_implementation=ds.experts_implementation,
            gradient_checkpointing=actor.gradient_checkpointing_enable,
            gradient_checkpointing_reentrant=actor.gradient_checkpointing_reentrant,
        )
        self._aux_loss_coef = actor.aux_loss_coef
        self._experts_per_token = experts_per_token(path, model.config) if actor.aux_loss_coef > 0 else None
        if self._experts_per_token is not None:
            _check_checkpointing(actor)
            # Routers report the tokens that ran; a shared prompt runs once, and its mask is not the model's own.
            ds = ds.model_copy(update={"share_prompts": False})
        self.vision_frozen = actor.freeze_visual_encoder or max_images == 0
        self._vision = vision_inputs(
            path, model.config, max_images, sharded=ds.zero_stage == 3, trained=not self.vision_frozen
        )
        if self._vision is not None and self.vision_frozen:
            freeze_vision(model, self._vision.processor.architecture)
        super().__init__("actor", actor, model, ds, context, total_steps, vision=self._vision)
        self._layout = choose_layout(ds, self._backend, dynamic_batches=train.dynamic_batch_enable)
        self._average = WeightAverage(train.ema_beta, self._backend.local_slices()) if train.enable_ema else None

    def logprobs(self, batches: Sequence[MicroBatch]) -> list[np.ndarray]:
        """Log-probabilities of the sampled tokens under the current weights, (N,) float32 per micro-batch."""
        return token_logprobs(
            self._backend, batches, layout=self._layout, temperature=self._temperature, vision=self._vision
        )

    def train_step(self, batches: Sequence[MicroBatch], kl_coef: float) -> PolicyStep:
        """One optimiser step over this rank's micro-batches; returns this rank's part of the metrics.

        Raises:
            FloatingPointError: a NaN or infinite loss (before the step) or gradient (the weights are then lost).
        """
        metrics, logprobs = accumulate_gradient(
            self._backend,
            batches,
            self._objective,
            kl_coef=kl_coef,
            layout=self._layout,
            temperature=self._temperature,
            aux_loss_coef=self._aux_loss_coef,
            experts_per_token=self._experts_per_token,
            vision=self._vision,
        )
        before = self.optimiser_steps
        metrics |= self._step()
        if self._average is not None and self.optimiser_steps > before:
            self._average.update(self._backend.local_slices())
        return PolicyStep(metrics, logprobs)

    @property
    def syncs_partly(self) -> bool:
        """Whether engines keep the weights of a vision encoder that is not trained."""
        return self._vision is not None and self.vision_frozen

    def synced_weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """What the engines need after an update, as `named_weights`; the trained weights where it `syncs_partly`."""
        return self._backend.named_weights(trained_only=self.syncs_partly)

    def averaged_weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """The moving average of every trained weight, whole, in float32.

        Raises:
            ValueError: no average is kept.
        """
        if self._average is None:
            raise ValueError("no average of the weights is kept: set --train.enable_ema")
        return self._backend.whole_slices(self._average.slices())

    def save_hf(self, folder: Path | str) -> None:
        """Write a plain Hugging Face model folder (rank 0; the others help gathering); the average where one is kept.

        Weights that are not trained are written as they are.
        """
        self._export(self.named_weights() if self._average is None else self._averaged_model(), folder)

    def save(self, folder: Path | str) -> None:
        """Write what a resumed run needs; each rank adds its part of the average."""
        super().save(folder)
        if self._average is not None:
            torch.save(self._average.state_dict(), self._average_file(folder))

    def load(self, folder: Path | str) -> None:
        """Continue from what `save` wrote.

        Raises:
            FileNotFoundError: there is no checkpoint in `folder`, or none with an average where one is kept.
            ValueError: the average is that of other weights, or of another number of processes.
        """
        super().load(folder)
        if self._average is None:
            return
        file = self._average_file(folder)
        if not file.is_file():
            raise FileNotFoundError(f"no average of the weights at {file}: resume without --train.enable_ema")
        self._average.load_state_dict(torch.load(file, weights_only=False))

    def _average_file(self, folder: Path | str) -> Path:
        return Path(folder) / f"average_rank_{self._rank}.pt"

    def _averaged_model(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Every weight in its own number format: the average of the trained ones, the others as they are.

        Two passes, since both of them are collective: an exporter keeps the later tensor of a name.
        """
        dtypes: dict[str, torch.dtype] = {}
        for name, weight in self.named_weights():
            dtypes[name] = weight.dtype
            yield name, weight
        for name, weight in self.averaged_weights():
            yield name, weight.to(dtypes[name])


def _check_checkpointing(actor: ActorConfig) -> None:
    if actor.gradient_checkpointing_enable and actor.gradient_checkpointing_reentrant:
        raise ModelError(
            "--actor.aux_loss_coef with --actor.gradient_checkpointing_reentrant: re-entrant checkpointing keeps no "
            "gradient of the routers; leave out one of them"
        )

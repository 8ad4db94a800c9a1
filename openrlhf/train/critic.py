"""The critic on one rank: values of states, and optimiser steps that fit them to returns.

    critic = CriticTrainer(critic, ds, train, aggregation, calibrated, context, total_steps)
    values = critic.values(batches)
    metrics = critic.train_step(batches)

Every method is collective: all ranks call it, with equally many micro-batches.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from openrlhf.config.model import CriticConfig
from openrlhf.config.train import DsConfig, TrainConfig
from openrlhf.models.attention import default_attention
from openrlhf.models.layout_choice import choose_layout
from openrlhf.models.load import DTYPES
from openrlhf.models.value import Calibration, TokenValues, calibration, choose_pad_token, file_names, load_value_model
from openrlhf.rl.losses.aggregation import Aggregation
from openrlhf.rl.losses.share import LossShare
from openrlhf.rl.losses.value_loss import ValueStreams, value_loss
from openrlhf.rl.metrics import MetricSum
from openrlhf.train.context import WorkerContext
from openrlhf.train.forward import token_values
from openrlhf.train.step import add_up
from openrlhf.train.trained import TrainedModel, model_path
from openrlhf.types import MicroBatch


class CriticTrainer(TrainedModel):
    """One rank of the critic. It starts from a reward model, or from a causal LM with a head that says 0.

    Args:
        aggregation: how the losses of tokens become one number.
        calibrated: values are put on the scale that the checkpoint's config records, as the rewards are then.

    Raises:
        ModelError: the model cannot be loaded, in one line.
    """

    def __init__(
        self,
        critic: CriticConfig,
        ds: DsConfig,
        train: TrainConfig,
        aggregation: Aggregation,
        calibrated: bool,
        context: WorkerContext,
        total_steps: int,
        *,
        gradient_checkpointing: bool = False,
        gradient_checkpointing_reentrant: bool = False,
    ) -> None:
        path = model_path("critic", critic)
        context.apply(train.full_determinism_enable)
        self._aggregation = aggregation
        self._value_clip = critic.value_clip
        model = load_value_model(
            path,
            DTYPES[ds.dtype],
            ds.attn_implementation or default_attention(context.device),
            head_prefix=ds.value_head_prefix,
            new_head=True,
            experts_implementation=ds.experts_implementation,
            gradient_checkpointing=gradient_checkpointing,
            gradient_checkpointing_reentrant=gradient_checkpointing_reentrant,
        )
        self._scale = calibration(model.config) if calibrated else Calibration()
        super().__init__("critic", critic, model, ds, context, total_steps, runner=TokenValues(model))
        choose_pad_token(model.config, self._texts)
        self._layout = choose_layout(ds, self._backend, dynamic_batches=train.dynamic_batch_enable)

    def values(self, batches: Sequence[MicroBatch]) -> list[np.ndarray]:
        """(N,) float32 per micro-batch, at t the value of the state in which token t is chosen, 0 off the action mask.

        GAE's V(s_t): the state is all tokens before t.
        """
        with torch.no_grad():
            found = [self._values(batch) for batch in batches]
        return [values.float().cpu().numpy() for values in found]

    def train_step(self, batches: Sequence[MicroBatch]) -> dict[str, MetricSum]:
        """One optimiser step over this rank's micro-batches; returns this rank's part of the metrics.

        Raises:
            ValueError: a micro-batch without values or returns.
            FloatingPointError: a NaN or infinite loss (before the step) or gradient (the weights are then lost).
        """
        return add_up(self._backend, batches, self._loss) | self._step()

    def save_hf(self, folder: Path | str) -> None:
        """Write a Hugging Face classifier folder (rank 0; the others help gathering)."""
        self._export(self.named_weights(), folder, file_names(self._backend.model.config))

    def _values(self, batch: MicroBatch) -> torch.Tensor:
        values = self._scale.apply(token_values(self._backend, batch, self._layout))
        return values.where(torch.tensor(batch.action_mask, device=values.device), 0.0)

    def _loss(self, batch: MicroBatch) -> LossShare:
        values = self._values(batch)
        streams = value_streams(batch, values)
        return value_loss(streams, batch.totals, self._value_clip, self._aggregation)


def value_streams(batch: MicroBatch, values: torch.Tensor) -> ValueStreams:
    """What the value loss reads. Raises ValueError where the micro-batch has no values or returns."""
    if batch.values is None or batch.returns is None:
        raise ValueError("micro-batch without values and returns: they are computed before the critic is trained")
    return ValueStreams(
        values=values,
        old_values=torch.tensor(batch.values, device=values.device),
        returns=torch.tensor(batch.returns, device=values.device),
        loss_mask=torch.tensor(batch.loss_mask, device=values.device),
        cu_seqlens=torch.tensor(batch.cu_seqlens, device=values.device),
    )

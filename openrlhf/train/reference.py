"""The frozen reference policy on one rank."""

from collections.abc import Sequence

import numpy as np
import torch

from openrlhf.config.model import RefConfig
from openrlhf.config.train import DsConfig
from openrlhf.models.attention import default_attention
from openrlhf.models.errors import ModelError
from openrlhf.models.load import DTYPES, load_causal_lm
from openrlhf.train.backend import ScoringBackend
from openrlhf.train.context import WorkerContext
from openrlhf.train.forward import token_logprobs
from openrlhf.train.layout import choose_layout
from openrlhf.train.replica import ReplicaBackend
from openrlhf.types import MicroBatch


class ReferenceModel:
    """Scores tokens as the policy would have before training, in the policy's own number format.

    With ZeRO-3 its weights are sharded over the ranks, which must then call `logprobs` with equally many
    micro-batches. Otherwise every rank holds them all, and `offload` keeps them in CPU memory between calls.

    Raises:
        ModelError: the model cannot be loaded, in one line.
    """

    def __init__(self, ref: RefConfig, ds: DsConfig, temperature: float, context: WorkerContext) -> None:
        if ref.model_name_or_path is None:
            raise ModelError("the reference has no model: set --ref.model_name_or_path")
        context.apply()
        self._temperature = temperature
        model = load_causal_lm(
            ref.model_name_or_path,
            DTYPES[ds.dtype],
            ds.attn_implementation or default_attention(context.device),
            experts_implementation=ds.experts_implementation,
        )
        self._layout = choose_layout(ds, model)
        self._backend: ScoringBackend
        self._offloaded: ReplicaBackend | None = None
        if ds.zero_stage == 3:
            from openrlhf.train.deepspeed.engine import DeepSpeedScoringBackend, init_distributed

            init_distributed(context)
            self._backend = DeepSpeedScoringBackend(model, ds, ref.offload, context)
        else:
            replica = ReplicaBackend(model, context.torch_device)
            self._backend = replica
            if ref.offload:
                self._offloaded = replica
                replica.move("cpu")

    def logprobs(self, batches: Sequence[MicroBatch]) -> list[np.ndarray]:
        """Log-probabilities of the sampled tokens, (N,) float32 per micro-batch, 0 off the action mask."""
        if self._offloaded is not None:
            self._offloaded.move(self._backend.device)
        try:
            return token_logprobs(self._backend, batches, layout=self._layout, temperature=self._temperature)
        finally:
            if self._offloaded is not None:
                self._offloaded.move("cpu")
                if self._backend.device.type == "cuda":
                    torch.cuda.empty_cache()

"""The frozen reference policy on one rank."""

from collections.abc import Sequence

import numpy as np

from openrlhf.config.model import RefConfig
from openrlhf.config.train import DsConfig
from openrlhf.models.attention import default_attention
from openrlhf.models.errors import ModelError
from openrlhf.models.layout_choice import choose_layout
from openrlhf.models.load import DTYPES, load_causal_lm
from openrlhf.models.vision.make import vision_inputs
from openrlhf.train.context import WorkerContext
from openrlhf.train.forward import token_logprobs
from openrlhf.train.frozen import frozen_backend
from openrlhf.types import MicroBatch


class ReferenceModel:
    """Scores tokens as the policy would have before training, in the policy's own number format.

    Raises:
        ModelError: the model cannot be loaded, in one line.
    """

    def __init__(
        self, ref: RefConfig, ds: DsConfig, temperature: float, context: WorkerContext, max_images: int = 0
    ) -> None:
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
        self._vision = vision_inputs(ref.model_name_or_path, model.config, max_images, sharded=ds.zero_stage == 3)
        self._backend = frozen_backend(model, ds, ref.offload, context)
        with self._backend.loaded():
            self._layout = choose_layout(ds, self._backend)

    def logprobs(self, batches: Sequence[MicroBatch]) -> list[np.ndarray]:
        """Log-probabilities of the sampled tokens, (N,) float32 per micro-batch, 0 off the action mask."""
        with self._backend.loaded():
            return token_logprobs(
                self._backend, batches, layout=self._layout, temperature=self._temperature, vision=self._vision
            )

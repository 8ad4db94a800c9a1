"""The seam between a model and whatever holds and shards its weights."""

from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch
from transformers import PreTrainedModel


class ScoringBackend(Protocol):
    """A model that can be run forward; every rank that shares its weights must call it equally often."""

    model: PreTrainedModel  # gives names and config; its weights may be sharded away
    device: torch.device

    def outputs(self, **inputs: Any) -> Any:
        """Run the model and return its outputs, `logits` among them; gradients flow iff grad mode is on."""
        ...


class FrozenBackend(ScoringBackend, Protocol):
    """A model that is only run forward, and whose weights may be elsewhere between passes."""

    def loaded(self) -> AbstractContextManager[None]:
        """The model can run inside this block."""
        ...

"""A frozen model, whole on every rank: no process group, no engine."""

from typing import Any

import torch
from transformers import PreTrainedModel


class ReplicaBackend:
    """Runs a model forward only (see `ScoringBackend`)."""

    def __init__(self, model: PreTrainedModel, device: torch.device) -> None:
        self.model = model.eval().requires_grad_(False).to(device)
        self.device = device

    def logits(self, **inputs: Any) -> torch.Tensor:
        return self.model(**inputs, use_cache=False).logits

    def move(self, device: str | torch.device) -> None:
        """Bring the weights to `device`: out of the GPU's way between passes, and back for one."""
        self.model.to(device)

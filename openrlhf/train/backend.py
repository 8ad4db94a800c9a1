"""The seam between training logic and the engine that shards, accumulates and steps."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch
from transformers import PreTrainedModel


@dataclass(frozen=True, slots=True)
class StepResult:
    """What one optimiser step did."""

    grad_norm: float  # of the whole model's summed gradient, before clipping
    applied: bool  # false: fp16 overflow, the step was skipped and the loss scale lowered


class ScoringBackend(Protocol):
    """A model that can be run forward; every rank must call it equally often."""

    model: PreTrainedModel  # its parameters may be sharded: read weights through `named_weights`
    device: torch.device

    def logits(self, **inputs: Any) -> torch.Tensor:
        """Run the model; gradients flow iff grad mode is on."""
        ...


class TrainBackend(ScoringBackend, Protocol):
    """A model that can be trained: gradients are SUMS over micro-batches and over ranks."""

    def backward(self, loss: torch.Tensor, last: bool) -> None:
        """Add this micro-batch's gradient; `last` marks the final micro-batch of the optimiser step."""
        ...

    def step(self, lr: float) -> StepResult: ...

    def named_weights(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Every weight in full, one at a time, valid until the next one is drawn. Collective."""
        ...

    def save(self, folder: Path | str, extra: dict[str, Any]) -> None: ...

    def load(self, folder: Path | str) -> dict[str, Any]: ...

    def close(self) -> None: ...

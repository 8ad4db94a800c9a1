"""The seam between training logic and the engine that shards, accumulates and steps."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import torch

from openrlhf.models.scoring import ScoringBackend


@dataclass(frozen=True, slots=True)
class StepResult:
    """What one optimiser step did."""

    grad_norm: float  # of the whole model's summed gradient, before clipping
    applied: bool  # false: fp16 overflow, the step was skipped and the loss scale lowered


class TrainBackend(ScoringBackend, Protocol):
    """A model that can be trained: gradients are SUMS over micro-batches and over ranks."""

    def backward(self, loss: torch.Tensor, last: bool) -> None:
        """Add this micro-batch's gradient; `last` marks the final micro-batch of the optimiser step."""
        ...

    def step(self, factor: float) -> StepResult:
        """Step with `factor` times the peak learning rates."""
        ...

    def named_weights(self, trained_only: bool = False) -> Iterator[tuple[str, torch.Tensor]]:
        """Every weight in full, or every trained one, one at a time, valid until the next one is drawn. Collective."""
        ...

    def local_slices(self) -> Iterator[tuple[str, torch.Tensor]]:
        """This rank's part of each trained weight: slice r of W equal flat ones, views into the weights.

        The last slices are padded, or short where they are views.
        """
        ...

    def whole_slices(self, slices: Iterable[tuple[str, torch.Tensor]]) -> Iterator[tuple[str, torch.Tensor]]:
        """From each rank's slices, all (c,) of equal length, in the order of `local_slices`, the whole tensors in the
        weights' shapes, one at a time. Collective."""
        ...

    def sleep(self) -> None:
        """Move weights and optimiser out of the GPU's memory; nothing but `wake` may follow."""
        ...

    def wake(self) -> None: ...

    def save(self, folder: Path | str, extra: dict[str, Any]) -> None: ...

    def load(self, folder: Path | str) -> dict[str, Any]: ...

    def close(self) -> None: ...

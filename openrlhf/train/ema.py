"""Exponential moving average of a model's weights (Polyak averaging)."""

from collections.abc import Iterable, Iterator
from typing import Any

import torch


class WeightAverage:
    """After each optimiser step  average = beta * average + (1 - beta) * weights,  in float32.

    Each rank averages its own part of every weight (`TrainBackend.local_slices`), so the average takes 4 / W bytes per
    weight and rank.
    """

    def __init__(self, beta: float, slices: Iterable[tuple[str, torch.Tensor]]) -> None:
        self._beta = beta
        self._average = {name: part.detach().to(torch.float32, copy=True) for name, part in slices}

    def update(self, slices: Iterable[tuple[str, torch.Tensor]]) -> None:
        for name, part in slices:
            self._average[name].lerp_(part.detach().float(), 1 - self._beta)

    def slices(self) -> Iterator[tuple[str, torch.Tensor]]:
        yield from self._average.items()

    def state_dict(self) -> dict[str, Any]:
        return {name: part.cpu().numpy() for name, part in self._average.items()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Raises ValueError where the state is that of other weights, or of another number of ranks."""
        shapes = {name: tuple(part.shape) for name, part in self._average.items()}
        if shapes != {name: tuple(part.shape) for name, part in state.items()}:
            raise ValueError("the moving average was saved for other weights, or for another number of processes")
        for name, part in state.items():
            self._average[name].copy_(torch.from_numpy(part))

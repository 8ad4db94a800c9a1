"""What a loss function hands back."""

import math
from dataclasses import dataclass

import torch

from openrlhf.rl.metrics import MetricSum


@dataclass(frozen=True, slots=True)
class LossShare:
    """A micro-batch's share of the loss of the optimiser step, and its parts of the metrics."""

    loss: torch.Tensor  # scalar
    metrics: dict[str, MetricSum]


def check_finite(result: LossShare, where: str) -> None:
    """Raise FloatingPointError naming `where` and what is NaN or infinite in the loss or its metrics.

    In a data-parallel run the ranks must agree before one raises, else the others wait in a collective.
    """
    numbers = {"loss": float(result.loss.detach())} | {name: metric.total for name, metric in result.metrics.items()}
    bad = [f"{name} = {value}" for name, value in numbers.items() if not math.isfinite(value)]
    if bad:
        raise FloatingPointError(f"{where}: {', '.join(bad)}; a trained token has a value that is not finite")

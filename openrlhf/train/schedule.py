"""Learning-rate schedules: pure functions of the optimiser step."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

# progress in [0, 1] after the warm-up, minimum ratio -> factor of the peak learning rate
_DECAYS: dict[str, Callable[[float, float], float]] = {
    "constant": lambda progress, low: 1.0,
    "constant_with_warmup": lambda progress, low: 1.0,
    "linear": lambda progress, low: 1.0 - progress,
    "cosine": lambda progress, low: 0.5 * (1.0 + math.cos(math.pi * progress)),
    "cosine_with_min_lr": lambda progress, low: low + (1.0 - low) * 0.5 * (1.0 + math.cos(math.pi * progress)),
}
SCHEDULES = tuple(_DECAYS)


@dataclass(frozen=True, slots=True)
class LearningRate:
    """The learning rate of every optimiser step.

    With W = ceil(warmup_ratio * total_steps), step t (from 0) gets

        peak * (t + 1) / W                                 while t < W: the first step already moves the weights
        peak * decay((t - W) / (total_steps - W))          afterwards; past the end it stays at decay(1)

    `constant` has no warm-up. Source: the usual transformers schedules, whose warm-up starts at 0 instead.
    """

    name: str
    peak: float
    total_steps: int
    warmup_ratio: float = 0.0
    min_ratio: float = 0.0

    def __post_init__(self) -> None:
        if self.name not in _DECAYS:
            raise ValueError(f"LR schedule {self.name!r}: use one of {', '.join(SCHEDULES)}")
        if self.total_steps < 1:
            raise ValueError(f"LR schedule {self.name!r}: {self.total_steps} steps in all")

    def at(self, step: int) -> float:
        """The learning rate of optimiser step `step`, counted from 0."""
        warmup = 0 if self.name == "constant" else math.ceil(self.warmup_ratio * self.total_steps)
        if step < warmup:
            return self.peak * (step + 1) / warmup
        progress = min(1.0, (step - warmup) / max(1, self.total_steps - warmup))
        return self.peak * _DECAYS[self.name](progress, self.min_ratio)

    def moved(self, saved_steps: int, step: int) -> str | None:
        """What becomes of the rate of a run that goes on at `step`, and whose schedule had `saved_steps` when it was
        saved, in words; None where it stays as it was."""
        before, now = replace(self, peak=1.0, total_steps=saved_steps).at(step), replace(self, peak=1.0).at(step)
        if math.isclose(before, now):
            return None
        return (
            f"the learning-rate schedule {self.name} has {self.total_steps} optimiser steps now, and {saved_steps} "
            f"when it was saved: step {step + 1} takes {now:.4g} of the peak rate instead of {before:.4g}"
        )

"""The estimators by name. A new one is a file beside this one and a line in the table."""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from openrlhf.rl.advantages.dr_grpo import dr_grpo
from openrlhf.rl.advantages.group_norm import group_norm
from openrlhf.rl.advantages.reinforce import reinforce
from openrlhf.rl.advantages.reinforce_baseline import reinforce_baseline
from openrlhf.rl.advantages.rloo import rloo


@dataclass(frozen=True, slots=True)
class Estimator:
    """An estimator: (rewards (B,), group_ids (B,)) -> (B,) float64, one number per sample, and what goes with it."""

    name: str
    score: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
    grouped: bool  # compares the samples of a prompt: needs at least two of them, and every token gets the same number
    batch_norm: bool  # advantages are normalised over the loss tokens of the rollout batch
    critic: bool = False  # the baseline is a value model: the returns become advantages through `gae`


ESTIMATORS = {
    estimator.name: estimator
    for estimator in (
        Estimator("gae", reinforce, grouped=False, batch_norm=True, critic=True),
        Estimator("reinforce", reinforce, grouped=False, batch_norm=True),
        Estimator("reinforce_baseline", reinforce_baseline, grouped=True, batch_norm=True),
        Estimator("rloo", rloo, grouped=True, batch_norm=False),
        Estimator("group_norm", group_norm, grouped=True, batch_norm=False),
        Estimator("dr_grpo", dr_grpo, grouped=True, batch_norm=False),
    )
}


def estimator(name: str) -> Estimator:
    """Return the estimator of that name, or raise ValueError listing those that exist."""
    if name not in ESTIMATORS:
        raise ValueError(f"unknown advantage estimator {name!r}, one of {', '.join(ESTIMATORS)} is possible")
    return ESTIMATORS[name]

"""Cutting an experience into optimiser batches, and those into every rank's micro-batches."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from openrlhf.config.rollout import RolloutConfig
from openrlhf.config.train import TrainConfig
from openrlhf.rl.packing import filler, pack, plan_micro_batches, step_totals, unpack_into
from openrlhf.types import Experience, MicroBatch


@dataclass(frozen=True, slots=True)
class Dispatch:
    """The micro-batches of each rank: the same count on every rank, every row exactly once."""

    batches: list[list[MicroBatch]]  # [world_size][micro-batches]

    def collect(self, values: Sequence[Sequence[np.ndarray]], experience: Experience) -> np.ndarray:
        """Lay per-token answers, (N,) per micro-batch, back into a (B, T) float32 array like the experience."""
        out = np.zeros(experience.sequences.shape, dtype=np.float32)
        for own_values, own_batches in zip(values, self.batches, strict=True):
            unpack_into(own_values, own_batches, out)
        return out


@dataclass(frozen=True, slots=True)
class MicroBatchLimit:
    """How much one forward pass takes: so many sequences, or so many tokens."""

    sequences: int | None
    tokens: int | None

    @classmethod
    def for_training(cls, train: TrainConfig) -> "MicroBatchLimit":
        if train.dynamic_batch_enable:
            return cls(None, train.max_tokens_per_gpu)
        return cls(train.micro_batch_size, None)

    @classmethod
    def for_scoring(cls, rollout: RolloutConfig, train: TrainConfig) -> "MicroBatchLimit":
        if train.dynamic_batch_enable:
            return cls(None, rollout.max_tokens_per_gpu or train.max_tokens_per_gpu)
        return cls(rollout.micro_batch_size, None)


def dispatch(experience: Experience, rows: Sequence[int], world_size: int, limit: MicroBatchLimit) -> Dispatch:
    """Spread rows over ranks, balanced by tokens. A rank without rows gets a filler that weighs nothing."""
    totals = step_totals(experience, rows)
    lengths = [int(experience.attention_mask[row].sum()) for row in rows]
    plan = plan_micro_batches(lengths, world_size, limit.sequences, limit.tokens)
    return Dispatch(
        [
            [pack(experience, [rows[i] for i in members], totals) if members else filler(totals) for members in own]
            for own in plan
        ]
    )


def optimiser_batches(experience: Experience, batch_size: int, generator: np.random.Generator) -> list[list[int]]:
    """Rows of each optimiser step of one epoch.

    Samples, not rows, are counted: the segments of one sample stay in one step. One step takes all samples in order;
    several steps take them shuffled. The last step may be short; its denominators are its own.
    """
    samples = np.unique(experience.sample_ids)
    if len(samples) > batch_size:
        samples = generator.permutation(samples)
    return [
        np.flatnonzero(np.isin(experience.sample_ids, samples[start : start + batch_size])).tolist()
        for start in range(0, len(samples), batch_size)
    ]

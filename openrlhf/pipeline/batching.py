"""Cutting an experience into optimiser batches, and those into every rank's micro-batches."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from openrlhf.config.rollout import RolloutConfig
from openrlhf.config.train import DsConfig, TrainConfig
from openrlhf.rl.packing import pack, plan_micro_batches, step_totals, unpack_into
from openrlhf.types import Experience, MicroBatch

_UNITS_PER_RANK = 4  # fewer groups than this per rank are dealt row by row: the ranks would wait for each other


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
    together: bool = False  # keep the samples of a prompt in one micro-batch: they share its forward pass

    @classmethod
    def for_training(cls, train: TrainConfig, ds: DsConfig) -> "MicroBatchLimit":
        together = ds.packing_samples and ds.share_prompts
        if train.dynamic_batch_enable:
            return cls(None, train.max_tokens_per_gpu, together)
        return cls(train.micro_batch_size, None, together)

    @classmethod
    def for_scoring(cls, rollout: RolloutConfig, train: TrainConfig, ds: DsConfig) -> "MicroBatchLimit":
        together = ds.packing_samples and ds.share_prompts
        if train.dynamic_batch_enable:
            return cls(None, rollout.max_tokens_per_gpu or train.max_tokens_per_gpu, together)
        return cls(rollout.micro_batch_size, None, together)


def dispatch(experience: Experience, rows: Sequence[int], world_size: int, limit: MicroBatchLimit) -> Dispatch:
    """Spread rows over ranks, balanced by tokens. A rank without rows gets a filler that weighs nothing.

    The samples of a prompt stay in one micro-batch where `limit` asks for it, has room for them, and the ranks still
    get equal work.
    """
    totals = step_totals(experience, rows)
    lengths = {row: int(experience.attention_mask[row].sum()) for row in rows}
    units = _units(experience, rows) if limit.together else [[row] for row in rows]
    if not _fits(units, lengths, world_size, limit):
        units = [[row] for row in rows]
    widest = max(map(len, units))
    plan = plan_micro_batches(
        [sum(lengths[row] for row in unit) for unit in units],
        world_size,
        None if limit.sequences is None else limit.sequences // widest,
        limit.tokens,
    )
    members = [[[row for i in chosen for row in units[i]] for chosen in own] for own in plan]
    return Dispatch([[pack(experience, own_rows, totals) for own_rows in own] for own in members])


def _units(experience: Experience, rows: Sequence[int]) -> list[list[int]]:
    """The rows of each group, in the order of the rows."""
    units: dict[int, list[int]] = {}
    for row in rows:
        units.setdefault(int(experience.group_ids[row]), []).append(row)
    return list(units.values())


def _fits(units: list[list[int]], lengths: dict[int, int], world_size: int, limit: MicroBatchLimit) -> bool:
    """Whether whole units respect the limit, and there are enough of them to balance the ranks."""
    if limit.sequences is not None and max(map(len, units)) > limit.sequences:
        return False
    if limit.tokens is not None and max(sum(lengths[row] for row in unit) for unit in units) > limit.tokens:
        return False
    return world_size == 1 or len(units) >= _UNITS_PER_RANK * world_size


def optimiser_batches(
    experience: Experience, batch_size: int, generator: np.random.Generator, left_out: np.ndarray | None = None
) -> list[list[int]]:
    """Rows of each optimiser step of one epoch; a step without a loss token is none. `left_out`: (B,) bool, not these.

    Samples, not rows, are counted: the segments of one sample stay in one step. One step takes all samples in order;
    several steps take them shuffled. The last step may be short; its denominators are its own.
    """
    samples = np.unique(experience.sample_ids if left_out is None else experience.sample_ids[~left_out])
    if len(samples) > batch_size:
        samples = generator.permutation(samples)
    steps = [
        np.flatnonzero(np.isin(experience.sample_ids, samples[start : start + batch_size]))
        for start in range(0, len(samples), batch_size)
    ]
    return [rows.tolist() for rows in steps if experience.loss_mask[rows].any()]

"""From rollouts to what a training worker eats.

    groups -> collate -> Experience (padded) -> plan_micro_batches -> pack -> MicroBatch (padding-free)

A plan gives every rank the same number of micro-batches, because each one is a round of collectives; a rank that has
no rows left gets an empty list and trains on a `filler`, which adds nothing to any sum.
"""

from collections.abc import Sequence

import numpy as np

from openrlhf.rl.balance import first_fit, heaviest_first, karmarkar_karp
from openrlhf.rl.token_rewards import turn_rewards
from openrlhf.types import EncodedImage, Experience, MicroBatch, Rollout, RolloutGroup, Segment, Status, StepTotals

FILLER_TOKENS = 2


def collate(groups: Sequence[RolloutGroup]) -> Experience:
    """Lay out groups as one right-padded batch: a row per segment, in the order of groups, samples, segments.

    Masks come from lengths, never from a pad id. Raises ValueError for no samples at all, and for an ungraded one:
    `filtering` decides about those before.
    """
    rows: list[tuple[Segment, Rollout, int, int]] = []
    num_samples = 0
    for group_number, group in enumerate(groups):
        for rollout in group.rollouts:
            if rollout.outcome.status is Status.UNGRADED:
                raise ValueError(f"sample {rollout.sample_id} is ungraded, it has no reward to train on")
            rows += [(segment, rollout, group_number, num_samples) for segment in rollout.segments]
            num_samples += 1
    if not rows:
        raise ValueError("collate: no samples")
    segments = [segment for segment, *_ in rows]
    return Experience(
        sequences=_pad([s.token_ids for s in segments], 0, np.int64),
        attention_mask=_pad([np.ones(len(s.token_ids), dtype=bool) for s in segments], False, bool),
        action_mask=_pad([s.action_mask for s in segments], False, bool),
        loss_mask=_pad([s.loss_mask for s in segments], False, bool),
        policy_versions=_pad([s.policy_versions for s in segments], -1, np.int32),
        rollout_logprobs=_pad([s.logprobs for s in segments], 0.0, np.float32),
        rewards=np.array([rollout.outcome.reward for _, rollout, _, _ in rows], dtype=np.float32),
        scores=np.array([rollout.outcome.score for _, rollout, _, _ in rows], dtype=np.float32),
        group_ids=np.array([group for _, _, group, _ in rows], dtype=np.int64),
        sample_ids=np.array([sample for *_, sample in rows], dtype=np.int64),
        truncated=np.array([rollout.truncated for _, rollout, _, _ in rows], dtype=bool),
        turn_rewards=_turn_rewards(segments),
        images=tuple(segment.images for segment in segments) if any(segment.images for segment in segments) else None,
    )


def _turn_rewards(segments: Sequence[Segment]) -> np.ndarray | None:
    """(B, T) float32, or None where no turn of the whole batch has a reward of its own."""
    if all(turn.reward is None for segment in segments for turn in segment.turns):
        return None
    return _pad([turn_rewards(s.turns, s.action_mask) for s in segments], 0.0, np.float32)


def plan_micro_batches(
    lengths: Sequence[int], world_size: int, micro_batch_size: int | None = None, max_tokens: int | None = None
) -> list[list[list[int]]]:
    """Share out rows of the given lengths: plan[rank][micro_batch] is a list of indices into `lengths`.

    Every index appears exactly once; every rank has the same number of micro-batches, possibly with empty ones at the
    end; ranks and micro-batches are balanced by tokens (Karmarkar-Karp), no rank is idle while there are rows enough,
    and without max_tokens every rank has as many rows as the others or one fewer.
    micro_batch_size: most rows in a micro-batch. max_tokens: most tokens in one; a single longer row stands alone.
    At least one of them must be given. Raises ValueError for no rows.
    """
    if not lengths or world_size < 1:
        raise ValueError(f"plan_micro_batches: {len(lengths)} rows for {world_size} ranks")
    if micro_batch_size is None and max_tokens is None:
        raise ValueError("plan_micro_batches: give micro_batch_size, max_tokens or both")
    ranks = karmarkar_karp(lengths, world_size, equal_counts=max_tokens is None)
    weights = [[lengths[row] for row in rows] for rows in ranks]
    count = max(_count_micro_batches(w, micro_batch_size, max_tokens) for w in weights)
    return [_cut(rows, w, count, micro_batch_size, max_tokens) for rows, w in zip(ranks, weights, strict=True)]


def step_totals(experience: Experience, rows: Sequence[int]) -> StepTotals:
    """The denominators of an optimiser step that trains these rows, over all ranks and micro-batches."""
    per_row = experience.loss_mask[list(rows)].sum(axis=1)
    return StepTotals(tokens=float(per_row.sum()), sequences=float((per_row > 0).sum()))


def pack(experience: Experience, rows: Sequence[int], totals: StepTotals) -> MicroBatch:
    """Lay rows of the experience end to end without their padding, or a `filler` for no rows."""
    if len(rows) == 0:
        return filler(totals)
    lengths = experience.attention_mask[list(rows)].sum(axis=1)

    def stream(padded: np.ndarray) -> np.ndarray:
        return np.concatenate([padded[row, :length] for row, length in zip(rows, lengths, strict=True)])

    def optional(padded: np.ndarray | None) -> np.ndarray | None:
        return None if padded is None else stream(padded)

    return MicroBatch(
        token_ids=stream(experience.sequences),
        position_ids=np.concatenate([np.arange(length, dtype=np.int64) for length in lengths]),
        cu_seqlens=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32),
        action_mask=stream(experience.action_mask),
        loss_mask=stream(experience.loss_mask),
        rollout_logprobs=stream(experience.rollout_logprobs),
        rows=np.asarray(rows, dtype=np.int64),
        totals=totals,
        old_logprobs=optional(experience.old_logprobs),
        ref_logprobs=optional(experience.ref_logprobs),
        advantages=optional(experience.advantages),
        returns=optional(experience.returns),
        values=optional(experience.values),
        images=_images(experience, rows),
    )


def _images(experience: Experience, rows: Sequence[int]) -> tuple[tuple[EncodedImage, ...], ...] | None:
    """The images of each row, or None where none of them has any."""
    images = experience.images
    return tuple(images[row] for row in rows) if images is not None and any(images[row] for row in rows) else None


def filler(totals: StepTotals) -> MicroBatch:
    """A sequence of 2 tokens without an action, for a rank that must take part in a round but has no rows left."""
    zeros = np.zeros(FILLER_TOKENS, dtype=np.float32)
    nothing = np.zeros(FILLER_TOKENS, dtype=bool)
    return MicroBatch(
        token_ids=np.zeros(FILLER_TOKENS, dtype=np.int64),
        position_ids=np.arange(FILLER_TOKENS, dtype=np.int64),
        cu_seqlens=np.array([0, FILLER_TOKENS], dtype=np.int32),
        action_mask=nothing,
        loss_mask=nothing,
        rollout_logprobs=zeros,
        rows=np.array([-1], dtype=np.int64),
        totals=totals,
        old_logprobs=zeros,
        ref_logprobs=zeros,
        advantages=zeros,
        returns=zeros,
        values=zeros,
    )


def unpack_into(values: Sequence[np.ndarray], batches: Sequence[MicroBatch], out: np.ndarray) -> None:
    """Write packed results, one (N,) array per micro-batch, into the rows of `out` (B, T) they came from.

    Fillers are skipped; padding and rows of other micro-batches keep their value.
    """
    for packed, batch in zip(values, batches, strict=True):
        if len(packed) != len(batch.token_ids):
            raise ValueError(f"unpack_into: {len(packed)} values for a micro-batch of {len(batch.token_ids)} tokens")
        for row, start, end in zip(batch.rows, batch.cu_seqlens[:-1], batch.cu_seqlens[1:], strict=True):
            if row >= 0:
                out[row, : end - start] = packed[start:end]


def _pad(arrays: Sequence[np.ndarray], value: float, dtype: type) -> np.ndarray:
    """Stack arrays of different length into (B, T), filled up on the right."""
    padded: np.ndarray = np.full((len(arrays), max(map(len, arrays))), value, dtype=dtype)
    for row, array in enumerate(arrays):
        padded[row, : len(array)] = array
    return padded


def _count_micro_batches(weights: Sequence[int], micro_batch_size: int | None, max_tokens: int | None) -> int:
    """How many micro-batches the rows of one rank need; at least one, so that an idle rank takes part."""
    if max_tokens is None:
        assert micro_batch_size is not None
        return max(1, -(-len(weights) // micro_batch_size))
    return max(1, len(first_fit(weights, max_tokens, micro_batch_size)))


def _cut(
    rows: Sequence[int], weights: Sequence[int], count: int, micro_batch_size: int | None, max_tokens: int | None
) -> list[list[int]]:
    """Cut the rows of one rank into `count` micro-batches, the one with most tokens first.

    The order lines up large micro-batches across ranks, which wait for each other in every round.
    """
    bins = karmarkar_karp(weights, count, equal_counts=micro_batch_size is not None)
    if max_tokens is not None and any(len(b) > 1 and sum(weights[i] for i in b) > max_tokens for b in bins):
        bins = first_fit(weights, max_tokens, micro_batch_size)
        bins += [[] for _ in range(count - len(bins))]
    tokens = [sum(weights[i] for i in b) for b in bins]
    return [sorted(rows[i] for i in bins[b]) for b in heaviest_first(tokens)]

"""Samples of one prompt, laid out so that the prompt is computed once.

A packed row  [P a1 a2 | P b1 b2 b3 | Q c1]  becomes  [P a1 a2 b1 b2 b3 | Q c1]:  the positions of b1 b2 b3 go on from
the end of P, and the attention mask lets them see P and each other, not a1 a2. Every token still sees exactly the
tokens it saw before, so logprobs and gradients are the same; with n samples of a prompt the prompt costs 1/n.
"""

from dataclasses import dataclass

import numpy as np

from openrlhf.types import EncodedImage, MicroBatch

_LARGEST_MASK = 8192  # tokens of a row; its (M, M) mask then takes 64 MiB
_SMALLEST_GAIN = 0.9  # share of the tokens that must remain for sharing to be left alone


@dataclass(frozen=True, slots=True)
class SharedRow:
    """One row of M <= N tokens that stands for a micro-batch of N."""

    token_ids: np.ndarray  # (M,) int64
    attention_mask: np.ndarray | None  # (M, M) bool, true where token i may see token j; None: from the position ids
    source: np.ndarray  # (N,) int64, where in the row each token of the micro-batch is
    order: np.ndarray  # (M,) int64, the token of the micro-batch that each one of the row is
    families: tuple[int, ...]  # a sequence of each prompt, in the row's order


def share_prompts(batch: MicroBatch) -> SharedRow | None:
    """Merge equal beginnings (all tokens before the first action, and the images of the sequence); None where too
    little would be saved. Images must lie in the beginnings."""
    members = _members_by_prompt(batch)
    lengths = np.diff(batch.cu_seqlens)
    saved = sum(len(prompt) * (len(own) - 1) for (prompt, _), own in members.items())
    total = int(lengths.sum()) - saved
    if total > _SMALLEST_GAIN * lengths.sum() or total > _LARGEST_MASK:
        return None
    kept: list[np.ndarray] = []  # indices into the micro-batch, in the row's order
    family, member = np.empty(total, dtype=np.int32), np.full(total, -1, dtype=np.int32)
    source = np.empty(len(batch.token_ids), dtype=np.int64)
    end = 0
    for number, ((prompt, _), own) in enumerate(members.items()):
        start, width = end, len(prompt)
        kept.append(batch.cu_seqlens[own[0]] + np.arange(width))
        end += width
        for sequence in own:
            first, stop = batch.cu_seqlens[sequence], batch.cu_seqlens[sequence + 1]
            source[first : first + width] = start + np.arange(width)
            source[first + width : stop] = end + np.arange(stop - first - width)
            kept.append(np.arange(first + width, stop))
            member[end : end + stop - first - width] = sequence
            end += stop - first - width
        family[start:end] = number
    order = np.concatenate(kept)
    firsts = tuple(own[0] for own in members.values())
    mask = _mask(family, member)
    return SharedRow(batch.token_ids[order], mask, source, order, firsts)


_Beginning = tuple[tuple[int, ...], tuple[EncodedImage, ...]]


def _members_by_prompt(batch: MicroBatch) -> dict[_Beginning, list[int]]:
    """Sequences by what comes before their first action; a sequence without actions is all prompt. Equal tokens may
    show different images, so these count too."""
    members: dict[_Beginning, list[int]] = {}
    for sequence, (start, stop) in enumerate(zip(batch.cu_seqlens[:-1], batch.cu_seqlens[1:], strict=True)):
        actions = np.flatnonzero(batch.action_mask[start:stop])
        width = int(actions[0]) if len(actions) else int(stop - start)
        images = () if batch.images is None else batch.images[sequence]
        members.setdefault((tuple(batch.token_ids[start : start + width].tolist()), images), []).append(sequence)
    return members


def _mask(family: np.ndarray, member: np.ndarray) -> np.ndarray:
    """Token i sees the earlier tokens of its prompt and of its own sample."""
    earlier = np.tril(np.ones((len(family), len(family)), dtype=bool))
    same_family = family[:, None] == family[None, :]
    own = (member[None, :] == -1) | (member[:, None] == member[None, :])
    return earlier & same_family & own

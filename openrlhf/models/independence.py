"""Whether a model keeps the sequences of a row apart, found by trying.

Most decoders of transformers tell them apart by their position ids. In others a sequence reads what lies before it,
without a word: where the mask is made without positions (OPT, Falcon), or a state or a convolution runs on (linear
attention, Mamba, LFM2).
"""

from dataclasses import replace

import numpy as np
import torch

from openrlhf.models.forward import outputs_at
from openrlhf.models.layout import Layout
from openrlhf.models.parts import head_of
from openrlhf.models.scoring import ScoringBackend
from openrlhf.types import MicroBatch, StepTotals

_PART = 8  # tokens of the prompt, and of each of its two samples
_FIRST, _SECOND = slice(_PART, 2 * _PART), slice(2 * _PART, 4 * _PART)  # the first sample; the whole second sequence
# What others in the row may change of the second sequence, and what another layout may, both relative.
_EXACT = (1e-4, 1e-3)
_16_BITS = (1e-2, 0.2)  # the layout alone can send a token to other experts


def keeps_apart(backend: ScoringBackend, layout: Layout) -> bool:
    """Whether the second of two samples of a prompt stays the same when the first one changes, and is as it is in a row
    of its own. Collective: three forward passes of at most 32 tokens.
    """
    batch = _two_samples(backend.model.config.get_text_config().vocab_size)
    other = replace(batch, token_ids=batch.token_ids.copy())
    other.token_ids[_FIRST] = batch.token_ids[_FIRST][::-1]
    found, alone, beside_other = (
        _hidden(backend, each, where) for each, where in ((batch, layout), (batch, "padded"), (other, layout))
    )
    change, difference = _EXACT if found.dtype.itemsize >= 4 else _16_BITS
    return _distance(beside_other, found) <= change and _distance(alone, found) <= difference


def _two_samples(vocabulary: int) -> MicroBatch:
    """[P a | P b] of `_PART` tokens each, all of them different where the vocabulary allows."""
    prompt, first, second = np.linspace(0, vocabulary, 3 * _PART, endpoint=False, dtype=np.int64).reshape(_PART, 3).T
    actions = np.tile(np.repeat([False, True], _PART), 2)
    return MicroBatch(
        token_ids=np.concatenate([prompt, first, prompt, second]),
        position_ids=np.tile(np.arange(2 * _PART, dtype=np.int64), 2),
        cu_seqlens=np.array([0, 2 * _PART, 4 * _PART], dtype=np.int32),
        action_mask=actions,
        loss_mask=actions,
        rollout_logprobs=np.zeros(4 * _PART, dtype=np.float32),
        rows=np.arange(2),
        totals=StepTotals(0.0, 0.0),
    )


def _hidden(backend: ScoringBackend, batch: MicroBatch, layout: Layout) -> torch.Tensor:
    """What the head would read at the second sequence, (16, H). Not what it says: a new value head says 0 of all."""
    positions = torch.arange(len(batch.token_ids))[_SECOND]
    handle = head_of(backend.model).register_forward_hook(lambda head, inputs, output: inputs[0])
    try:
        with torch.no_grad():
            return outputs_at(backend, batch, positions, layout).logits
    finally:
        handle.remove()


def _distance(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one - other).float().norm() / other.float().norm())

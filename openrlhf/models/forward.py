"""A model's outputs at chosen tokens of a micro-batch, in any layout.

The decoder runs over all tokens, the head only at the chosen ones. The head is reached through the model's own forward
(`logits_to_keep`), so that a sharded head is gathered like any other module.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from openrlhf.models.attention import explicit_mask
from openrlhf.models.layout import Layout
from openrlhf.models.scoring import ScoringBackend
from openrlhf.models.shared_prompt import SharedRow, share_prompts
from openrlhf.models.vision.inputs import VisionInputs
from openrlhf.types import MicroBatch


@dataclass(frozen=True, slots=True)
class Outputs:
    """`logits` (K, V) at the K chosen tokens, V = 1 for a value head; `router_logits`: a (T, E) tensor per layer of
    experts where asked for, of the T tokens that ran; `real` (T,): which of those are not padding."""

    logits: torch.Tensor
    router_logits: tuple[torch.Tensor, ...] = ()
    real: torch.Tensor | None = None


def outputs_at(
    backend: ScoringBackend,
    batch: MicroBatch,
    positions: torch.Tensor,
    layout: Layout,
    *,
    with_router: bool = False,
    vision: VisionInputs | None = None,
) -> Outputs:
    """Run the model over one micro-batch.

    Args:
        positions: (K,) int64 on the CPU, the tokens of the stream (N,) at which the head runs.
        layout: how the sequences lie. Same numbers in each: causal attention never looks at the padding behind a
            token, a packed row gets a block mask from its position ids, and a shared one brings its own.
        with_router: also return the routers' logits; not with the shared layout, whose mask the model's own
            balancing loss cannot read.
        vision: of a vision-language model.
    """
    extra: dict[str, Any] = {"output_router_logits": True} if with_router else {}
    places = batch.position_ids[None]
    if vision is not None:
        batch = vision.with_encoder(batch)
        vision.check(batch)
        places = vision.position_ids(batch)
    if layout == "padded":
        return _padded(backend, batch, places, positions, extra, with_router, vision)
    shared = layout == "shared" and (vision is None or vision.in_prompts(batch))
    return _row(backend, batch, places, positions, shared, extra, with_router, vision)


def _row(
    backend: ScoringBackend,
    batch: MicroBatch,
    places: np.ndarray,
    positions: torch.Tensor,
    shared: bool,
    extra: dict[str, Any],
    with_router: bool,
    vision: VisionInputs | None,
) -> Outputs:
    """All sequences end to end in one row. `places`: (1, N) position ids, or (4, N) on a grid."""
    device = backend.device
    row = share_prompts(batch) if shared else None
    if row is None:
        everything = np.arange(len(batch.token_ids))
        sequences = tuple(range(len(batch.rows)))
        row = SharedRow(batch.token_ids, None, everything, everything, sequences)
    if vision is not None:
        extra = extra | vision.tensors(batch, device, row.families)
    mask = None
    if row.attention_mask is not None:
        mask = explicit_mask(backend.model, torch.from_numpy(row.attention_mask).to(device))
    found = backend.outputs(
        input_ids=torch.tensor(row.token_ids, device=device).unsqueeze(0),
        position_ids=_position_ids(places[:, None, row.order], device),
        attention_mask=mask,
        logits_to_keep=torch.from_numpy(row.source)[positions].to(device),
        **extra,
    )
    return Outputs(found.logits[0], tuple(found.router_logits) if with_router else ())


def _padded(
    backend: ScoringBackend,
    batch: MicroBatch,
    places: np.ndarray,
    positions: torch.Tensor,
    extra: dict[str, Any],
    with_router: bool,
    vision: VisionInputs | None,
) -> Outputs:
    """S rows of T tokens. The head runs on the union of the rows' columns."""
    device = backend.device
    if vision is not None:
        extra = extra | vision.tensors(batch, device)
    starts = torch.from_numpy(batch.cu_seqlens).long()
    token_ids = _to_rows(batch.token_ids, batch.cu_seqlens)
    rows, width = token_ids.shape
    row = torch.searchsorted(starts, positions, right=True) - 1
    column = positions - starts[row]
    kept = column.unique()
    counted = np.broadcast_to(np.arange(width), (1, rows, width))  # on, over the padding
    grids = [_to_rows(own, batch.cu_seqlens)[None] for own in places[1:]]
    found = backend.outputs(
        input_ids=torch.from_numpy(token_ids).to(device),
        position_ids=_position_ids(np.concatenate([counted, *grids]), device),
        attention_mask=None,
        logits_to_keep=kept.to(device),
        **extra,
    )
    logits = found.logits[row.to(device), torch.searchsorted(kept, column).to(device)]
    if not with_router:
        return Outputs(logits)
    real = np.arange(width) < np.diff(batch.cu_seqlens)[:, None]
    return Outputs(logits, tuple(found.router_logits), torch.from_numpy(real.flatten()).to(device))


def _position_ids(places: np.ndarray, device: torch.device) -> torch.Tensor:
    """(B, T) for places of shape (1, B, T); on a grid (4, B, T) as they are."""
    return torch.tensor(places[0] if len(places) == 1 else places, device=device)


def _to_rows(stream: np.ndarray, cu_seqlens: np.ndarray) -> np.ndarray:
    """Cut a stream (N,) into its sequences: (S, T), filled with 0 on the right."""
    lengths = np.diff(cu_seqlens)
    rows = np.zeros((len(lengths), int(lengths.max())), dtype=stream.dtype)
    rows[np.arange(rows.shape[1]) < lengths[:, None]] = stream
    return rows

"""From a micro-batch to the log-probability of every sampled token, in any layout.

The decoder runs over all tokens, the output head only at the positions that predict a sampled token. The head is
reached through the model's own forward (`logits_to_keep`), so that a sharded head is gathered like any other module.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from openrlhf.rl.logprobs import gather_logprobs, logprobs_and_entropy, predictor_index, scatter_to_tokens
from openrlhf.train.backend import ScoringBackend
from openrlhf.train.layout import Layout
from openrlhf.train.shared_prompt import SharedRow, share_prompts
from openrlhf.types import MicroBatch


@dataclass(frozen=True, slots=True)
class TokenScores:
    """What the model says about each token of a micro-batch; index t describes token t, 0 off the action mask."""

    logprobs: torch.Tensor  # (N,) float32
    entropy: torch.Tensor | None  # (N,) float32, nats


def score_tokens(
    backend: ScoringBackend, batch: MicroBatch, *, layout: Layout, temperature: float, with_entropy: bool = False
) -> TokenScores:
    """Run the model over one micro-batch.

    Args:
        layout: how the sequences lie. Same numbers in each: causal attention never looks at the padding behind a
            token, a packed row gets a block mask from its position ids, and a shared one brings its own.
        temperature: logits are divided by it, as they were when the tokens were sampled.
    """
    device = backend.device
    action_mask = torch.tensor(batch.action_mask, device=device)
    token_ids = torch.tensor(batch.token_ids, device=device)
    logits = _padded_logits(backend, batch) if layout == "padded" else _row_logits(backend, batch, layout == "shared")
    targets = token_ids[action_mask]
    if not with_entropy:
        return TokenScores(scatter_to_tokens(gather_logprobs(logits, targets, temperature), action_mask), None)
    logprobs, entropy = logprobs_and_entropy(logits, targets, temperature)
    return TokenScores(scatter_to_tokens(logprobs, action_mask), scatter_to_tokens(entropy, action_mask))


def token_logprobs(
    backend: ScoringBackend, batches: Sequence[MicroBatch], *, layout: Layout, temperature: float
) -> list[np.ndarray]:
    """Score without gradients: (N,) float32 per micro-batch, 0 off the action mask."""
    with torch.no_grad():
        scores = [score_tokens(backend, batch, layout=layout, temperature=temperature) for batch in batches]
    return [score.logprobs.float().cpu().numpy() for score in scores]


def _row_logits(backend: ScoringBackend, batch: MicroBatch, shared: bool) -> torch.Tensor:
    """Return the (A, V) logits that predict the sampled tokens, from one row."""
    device = backend.device
    predictors = predictor_index(torch.from_numpy(batch.action_mask), torch.from_numpy(batch.cu_seqlens))
    row = share_prompts(batch) if shared else None
    if row is None:
        row = SharedRow(batch.token_ids, batch.position_ids, None, np.arange(len(batch.token_ids)))
    mask = None if row.attention_mask is None else torch.from_numpy(row.attention_mask).to(device)[None, None]
    logits = backend.logits(
        input_ids=torch.tensor(row.token_ids, device=device).unsqueeze(0),
        position_ids=torch.tensor(row.position_ids, device=device).unsqueeze(0),
        attention_mask=mask,
        logits_to_keep=torch.from_numpy(row.source)[predictors].to(device),
    )
    return logits[0]


def _padded_logits(backend: ScoringBackend, batch: MicroBatch) -> torch.Tensor:
    """Return the same (A, V) logits from S rows of T tokens. The head runs on the union of the rows' columns."""
    device = backend.device
    token_ids, action_mask = (_to_rows(stream, batch.cu_seqlens) for stream in (batch.token_ids, batch.action_mask))
    rows, width = token_ids.shape
    starts = torch.arange(0, rows * width + 1, width)
    predictors = predictor_index(torch.from_numpy(action_mask).flatten(), starts)
    row, column = predictors // width, predictors % width
    kept = column.unique()
    logits = backend.logits(
        input_ids=torch.from_numpy(token_ids).to(device),
        position_ids=torch.arange(width, device=device).expand(rows, width),
        attention_mask=None,
        logits_to_keep=kept.to(device),
    )
    return logits[row.to(device), torch.searchsorted(kept, column).to(device)]


def _to_rows(stream: np.ndarray, cu_seqlens: np.ndarray) -> np.ndarray:
    """Cut a stream (N,) into its sequences: (S, T), filled with 0 on the right."""
    lengths = np.diff(cu_seqlens)
    rows = np.zeros((len(lengths), int(lengths.max())), dtype=stream.dtype)
    rows[np.arange(rows.shape[1]) < lengths[:, None]] = stream
    return rows

"""From a micro-batch to the log-probability of every sampled token, packed or padded.

The decoder runs over all tokens, the output head only at the positions that predict a sampled token. The head is
reached through the model's own forward (`logits_to_keep`), so that a sharded head is gathered like any other module.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from openrlhf.rl.logprobs import gather_logprobs, logprobs_and_entropy, predictor_index, scatter_to_tokens
from openrlhf.train.backend import ScoringBackend
from openrlhf.types import MicroBatch


@dataclass(frozen=True, slots=True)
class TokenScores:
    """What the model says about each token of a micro-batch; index t describes token t, 0 off the action mask."""

    logprobs: torch.Tensor  # (N,) float32
    entropy: torch.Tensor | None  # (N,) float32, nats


def score_tokens(
    backend: ScoringBackend, batch: MicroBatch, *, packed: bool, temperature: float, with_entropy: bool = False
) -> TokenScores:
    """Run the model over one micro-batch.

    Args:
        packed: True lays the sequences end to end in one row; False gives each its own row, padded on the right.
            Same numbers either way: causal attention never looks at the padding behind a token, and a packed row
            gets a block mask from its position ids.
        temperature: logits are divided by it, as they were when the tokens were sampled.
    """
    device = backend.device
    action_mask = torch.tensor(batch.action_mask, device=device)
    token_ids = torch.tensor(batch.token_ids, device=device)
    logits = _packed_logits(backend, batch, action_mask) if packed else _padded_logits(backend, batch)
    targets = token_ids[action_mask]
    if not with_entropy:
        return TokenScores(scatter_to_tokens(gather_logprobs(logits, targets, temperature), action_mask), None)
    logprobs, entropy = logprobs_and_entropy(logits, targets, temperature)
    return TokenScores(scatter_to_tokens(logprobs, action_mask), scatter_to_tokens(entropy, action_mask))


def token_logprobs(
    backend: ScoringBackend, batches: Sequence[MicroBatch], *, packed: bool, temperature: float
) -> list[np.ndarray]:
    """Score without gradients: (N,) float32 per micro-batch, 0 off the action mask."""
    with torch.no_grad():
        scores = [score_tokens(backend, batch, packed=packed, temperature=temperature) for batch in batches]
    return [score.logprobs.float().cpu().numpy() for score in scores]


def _packed_logits(backend: ScoringBackend, batch: MicroBatch, action_mask: torch.Tensor) -> torch.Tensor:
    """Return the (A, V) logits that predict the sampled tokens, from one row of N tokens."""
    device = backend.device
    cu_seqlens = torch.tensor(batch.cu_seqlens, device=device)
    logits = backend.logits(
        input_ids=torch.tensor(batch.token_ids, device=device).unsqueeze(0),
        position_ids=torch.tensor(batch.position_ids, device=device).unsqueeze(0),
        logits_to_keep=predictor_index(action_mask, cu_seqlens),
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
        logits_to_keep=kept.to(device),
    )
    return logits[row.to(device), torch.searchsorted(kept, column).to(device)]


def _to_rows(stream: np.ndarray, cu_seqlens: np.ndarray) -> np.ndarray:
    """Cut a stream (N,) into its sequences: (S, T), filled with 0 on the right."""
    lengths = np.diff(cu_seqlens)
    rows = np.zeros((len(lengths), int(lengths.max())), dtype=stream.dtype)
    rows[np.arange(rows.shape[1]) < lengths[:, None]] = stream
    return rows

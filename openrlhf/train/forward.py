"""From a micro-batch to the log-probability, or the value, of every sampled token, in any layout."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from openrlhf.models.forward import outputs_at
from openrlhf.models.layout import Layout
from openrlhf.models.moe import balance_loss
from openrlhf.models.scoring import ScoringBackend
from openrlhf.models.vision.inputs import VisionInputs
from openrlhf.rl.logprobs import gather_logprobs, logprobs_and_entropy, predictor_index, scatter_to_tokens
from openrlhf.types import MicroBatch


@dataclass(frozen=True, slots=True)
class TokenScores:
    """What the model says about each token of a micro-batch; index t describes token t, 0 off the action mask."""

    logprobs: torch.Tensor  # (N,) float32
    entropy: torch.Tensor | None  # (N,) float32, nats
    imbalance: torch.Tensor | None = None  # scalar, of a mixture of experts over the tokens of the micro-batch


def score_tokens(
    backend: ScoringBackend,
    batch: MicroBatch,
    *,
    layout: Layout,
    temperature: float,
    with_entropy: bool = False,
    experts_per_token: int | None = None,
    vision: VisionInputs | None = None,
) -> TokenScores:
    """Run the model over one micro-batch.

    Args:
        temperature: logits are divided by it, as they were when the tokens were sampled.
        experts_per_token: of a mixture of experts whose imbalance is wanted, else None.
        vision: of a vision-language model. Its image tokens were banned from sampling, so they have probability 0.
    """
    action_mask, positions = _predictors(backend, batch)
    found = outputs_at(backend, batch, positions, layout, with_router=experts_per_token is not None, vision=vision)
    logits = found.logits
    if vision is not None:
        logits = logits.index_fill(-1, torch.tensor(vision.banned_ids, device=logits.device), -torch.inf)
    imbalance = None
    if experts_per_token is not None:
        imbalance = balance_loss(found.router_logits, experts_per_token, found.real)
    targets = torch.tensor(batch.token_ids, device=backend.device)[action_mask]
    if not with_entropy:
        logprobs, entropy = gather_logprobs(logits, targets, temperature), None
    else:
        logprobs, entropy = logprobs_and_entropy(logits, targets, temperature)
        entropy = scatter_to_tokens(entropy, action_mask)
    return TokenScores(scatter_to_tokens(logprobs, action_mask), entropy, imbalance)


def token_values(backend: ScoringBackend, batch: MicroBatch, layout: Layout) -> torch.Tensor:
    """Run a value model: (N,) float32, at t the value of the state that token t is sampled in, 0 off the action mask.

    float64 for a float64 model.
    """
    action_mask, positions = _predictors(backend, batch)
    values = outputs_at(backend, batch, positions, layout).logits.squeeze(-1)
    return scatter_to_tokens(values.to(torch.promote_types(values.dtype, torch.float32)), action_mask)


def token_logprobs(
    backend: ScoringBackend,
    batches: Sequence[MicroBatch],
    *,
    layout: Layout,
    temperature: float,
    vision: VisionInputs | None = None,
) -> list[np.ndarray]:
    """Score without gradients: (N,) float32 per micro-batch, 0 off the action mask."""
    with torch.no_grad():
        scores = [
            score_tokens(backend, batch, layout=layout, temperature=temperature, vision=vision) for batch in batches
        ]
    return [score.logprobs.float().cpu().numpy() for score in scores]


def _predictors(backend: ScoringBackend, batch: MicroBatch) -> tuple[torch.Tensor, torch.Tensor]:
    """The action mask (N,) on the device, and the positions (A,) on the CPU that predict the actions."""
    mask = torch.tensor(batch.action_mask)
    return mask.to(backend.device), predictor_index(mask, torch.from_numpy(batch.cu_seqlens))

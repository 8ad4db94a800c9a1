"""One optimiser step's gradient: forward, loss and backward over this rank's micro-batches."""

from collections.abc import Callable, Sequence

import numpy as np
import torch

from openrlhf.models.layout import Layout
from openrlhf.models.vision.inputs import VisionInputs
from openrlhf.rl.losses.objective import PolicyObjective
from openrlhf.rl.losses.policy_loss import policy_loss
from openrlhf.rl.losses.share import LossShare, check_finite
from openrlhf.rl.losses.tokens import LossStreams
from openrlhf.rl.metrics import MetricSum, PolicyStep, merge
from openrlhf.train.backend import TrainBackend
from openrlhf.train.forward import TokenScores, score_tokens
from openrlhf.types import MicroBatch


def add_up(
    backend: TrainBackend, batches: Sequence[MicroBatch], loss_of: Callable[[MicroBatch], LossShare]
) -> dict[str, MetricSum]:
    """Add up the gradient of the step's loss over micro-batches; the backend's `step` may follow.

    Each micro-batch's loss is already its share of the whole step's (its `totals`), so shares are summed, never
    averaged. A filler contributes 0 but runs forward and backward: the other ranks wait for its collectives.

    Raises:
        ValueError: no micro-batch.
        FloatingPointError: a trained token has a NaN or infinite value; nothing was stepped.
    """
    if not batches:
        raise ValueError("an optimiser step needs at least one micro-batch on every rank")
    parts = []
    for number, batch in enumerate(batches):
        result = loss_of(batch)
        check_finite(result, f"micro-batch {number + 1} of {len(batches)}")
        backend.backward(result.loss, last=number == len(batches) - 1)
        parts.append(result.metrics)
    return merge(parts)


def accumulate_gradient(
    backend: TrainBackend,
    batches: Sequence[MicroBatch],
    objective: PolicyObjective,
    *,
    kl_coef: float,
    layout: Layout,
    temperature: float,
    aux_loss_coef: float = 0.0,
    experts_per_token: int | None = None,
    vision: VisionInputs | None = None,
) -> PolicyStep:
    """Add up the gradient of the policy's loss; also returns the log-probabilities that it is made of.

    With `experts_per_token` a mixture of experts is also trained towards an even load: `aux_loss_coef` times the
    imbalance of every micro-batch, weighted by its share of the step's loss tokens. The imbalance is not linear in
    the tokens, so unlike all else it depends on how the step is cut into micro-batches.

    Raises:
        ValueError: no micro-batch, or one without advantages.
        FloatingPointError: as in `add_up`.
    """

    logprobs: list[np.ndarray] = []

    def loss_of(batch: MicroBatch) -> LossShare:
        scores = score_tokens(
            backend,
            batch,
            layout=layout,
            temperature=temperature,
            with_entropy=objective.entropy_coef is not None,
            experts_per_token=experts_per_token,
            vision=vision,
        )
        logprobs.append(scores.logprobs.detach().float().cpu().numpy())
        share = policy_loss(_loss_streams(batch, scores), batch.totals, objective, kl_coef)
        if scores.imbalance is None:
            return share
        tokens = float(batch.loss_mask.sum())
        auxiliary = scores.imbalance * (aux_loss_coef * tokens / max(batch.totals.tokens, 1.0))
        measured = MetricSum(float(scores.imbalance.detach()) * tokens, tokens)
        return LossShare(share.loss + auxiliary, share.metrics | {"train/aux_loss": measured})

    return PolicyStep(add_up(backend, batches, loss_of), logprobs)


def _loss_streams(batch: MicroBatch, scores: TokenScores) -> LossStreams:
    if batch.advantages is None:
        raise ValueError("micro-batch without advantages: they are estimated before training")
    device = scores.logprobs.device

    def to_device(stream: np.ndarray) -> torch.Tensor:
        return torch.tensor(stream, device=device)

    def optional(stream: np.ndarray | None) -> torch.Tensor | None:
        return None if stream is None else to_device(stream)

    return LossStreams(
        logprobs=scores.logprobs,
        rollout_logprobs=to_device(batch.rollout_logprobs),
        advantages=to_device(batch.advantages),
        loss_mask=to_device(batch.loss_mask),
        cu_seqlens=to_device(batch.cu_seqlens),
        old_logprobs=optional(batch.old_logprobs),
        ref_logprobs=optional(batch.ref_logprobs),
        entropy=scores.entropy,
    )

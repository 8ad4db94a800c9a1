"""Streams and objectives for the tests of the losses."""

import itertools

import torch

from openrlhf.rl.correction import CORRECTIONS, Correction
from openrlhf.rl.losses.aggregation import Aggregation
from openrlhf.rl.losses.objective import PolicyObjective
from openrlhf.rl.losses.tokens import LossStreams
from openrlhf.rl.losses.value_loss import ValueStreams
from openrlhf.types import StepTotals

ALL_CORRECTIONS = [None, *(Correction(kind, 0.5, 5.0) for kind in CORRECTIONS)]
LENGTH = 8
AGGREGATIONS = [Aggregation("token"), Aggregation("sequence"), Aggregation("constant", LENGTH)]


def streams(logprobs, advantages, mask, cu_seqlens=None, **others):
    """Streams from lists; the rollout logprobs are 0 unless given."""
    n = len(logprobs)
    others = {"rollout_logprobs": [0.0] * n} | others
    return LossStreams(
        logprobs=torch.tensor(logprobs, requires_grad=True),
        advantages=torch.tensor(advantages),
        loss_mask=torch.tensor(mask, dtype=torch.bool),
        cu_seqlens=torch.tensor(cu_seqlens or [0, n]),
        **{name: torch.tensor(value) for name, value in others.items()},
    )


def value_streams(values, old_values, returns, mask, cu_seqlens=None):
    return ValueStreams(
        torch.tensor(values, requires_grad=True),
        torch.tensor(old_values),
        torch.tensor(returns),
        torch.tensor(mask, dtype=torch.bool),
        torch.tensor(cu_seqlens or [0, len(values)]),
    )


def totals(found: LossStreams | ValueStreams) -> StepTotals:
    """The denominators of a step that consists of this micro-batch alone."""
    rows = [found.loss_mask[a:b].any().item() for a, b in itertools.pairwise(found.cu_seqlens)]
    return StepTotals(float(found.loss_mask.sum()), float(sum(rows)))


def objectives(**settings):
    """Every policy loss with every aggregation it takes."""
    for loss_type, aggregation in itertools.product(("ppo", "gspo", "cispo"), AGGREGATIONS):
        if loss_type != "gspo" or aggregation.mode == "sequence":
            yield PolicyObjective(loss_type=loss_type, aggregation=aggregation, **settings)


def corrected_objectives(**settings):
    """`objectives`, and every correction with each kind of loss, over the aggregations in turn."""
    yield from objectives(**settings)
    for number, correction in enumerate(ALL_CORRECTIONS[1:]):
        for loss_type in ("ppo", "cispo"):
            aggregation = AGGREGATIONS[number % len(AGGREGATIONS)]
            yield PolicyObjective(loss_type=loss_type, aggregation=aggregation, correction=correction, **settings)
    yield PolicyObjective(loss_type="gspo", aggregation=AGGREGATIONS[1], correction=correction, **settings)


def label(objective: PolicyObjective) -> str:
    kind = "" if objective.correction is None else f"-{objective.correction.kind}"
    return f"{objective.loss_type}-{objective.aggregation.mode}{kind}"

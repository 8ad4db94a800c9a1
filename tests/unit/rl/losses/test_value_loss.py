"""The critic's loss, with cases b1 and b2."""

import itertools
import math

import numpy as np
import pytest
import torch

from openrlhf.rl.losses.aggregation import Aggregation
from openrlhf.rl.losses.share import check_finite
from openrlhf.rl.losses.value_loss import ValueStreams, value_loss
from openrlhf.rl.metrics import finalize
from openrlhf.types import StepTotals
from tests.unit.rl import reference
from tests.unit.rl.losses.making import AGGREGATIONS, LENGTH, totals, value_streams


@pytest.mark.parametrize(
    ("value", "old", "target", "loss", "slope", "acted"),
    [
        # Clip 0.5. Close to V_old: the plain square error, ((1.2 - 2)^2) / 2 and V - R.
        (1.2, 1.0, 2.0, 0.32, -0.8, False),
        # V ran from 1 to 2 towards R = 3: the clipped 1.5 is further away, (1.5)^2 / 2, and nothing flows.
        (2.0, 1.0, 3.0, 1.125, 0.0, True),
        # V ran away from R = 1: its own error is the larger one, 1 / 2.
        (2.0, 1.0, 1.0, 0.5, 1.0, False),
    ],
)
def test_by_hand(value, old, target, loss, slope, acted):
    found = value_streams([value], [old], [target], [1])
    result = value_loss(found, totals(found), clip=0.5)
    result.loss.backward()
    assert result.loss.item() == pytest.approx(loss)
    assert found.values.grad.item() == pytest.approx(slope)
    assert finalize(result.metrics) == pytest.approx(
        {"train/critic_loss": loss, "train/values": value, "train/value_clip_ratio": float(acted)}
    )


def test_without_clipping():
    found = value_streams([2.0], [1.0], [3.0], [1])
    assert value_loss(found, totals(found), clip=None).loss.item() == 0.5


@pytest.mark.parametrize("aggregation", AGGREGATIONS, ids=lambda a: a.mode)
def test_matches_the_reference(aggregation):
    rng = np.random.default_rng(0)
    cu, mask = [0, 3, 4, 9, 12], rng.random(12) < 0.6
    mask[0], mask[4:9] = True, False  # sequence 2 has no loss token
    values, old, returns = rng.normal(size=(3, 12))
    found = ValueStreams(*map(torch.from_numpy, (values, old, returns, mask)), torch.tensor(cu))
    losses = [
        [reference.value_token(values[t], old[t], returns[t], 0.4) for t in range(start, end) if mask[t]]
        for start, end in itertools.pairwise(cu)
    ]
    result = value_loss(found, totals(found), 0.4, aggregation)
    expected = reference.aggregate(losses, aggregation.mode, LENGTH)
    assert result.loss.item() == pytest.approx(expected, rel=1e-12)
    assert finalize(result.metrics)["train/critic_loss"] == pytest.approx(expected, rel=1e-12)
    assert finalize(result.metrics)["train/values"] == pytest.approx(values[mask].mean())


@pytest.mark.parametrize("stream", ["values", "old_values", "returns"])
@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf, -1e4])
def test_case_b1_runs_1_and_2(stream, broken):
    """A broken value at the masked position: loss ((0 - 1)^2) / 2, gradient -1 and exactly 0."""
    given = {"values": [0.0, 0.0], "old_values": [0.0, 0.0], "returns": [1.0, 1.0]}
    given[stream][1] = broken
    found = value_streams(**given, mask=[1, 0])
    result = value_loss(found, totals(found), clip=0.5)
    result.loss.backward()
    assert result.loss.item() == 0.5
    assert found.values.grad.tolist() == [-1.0, 0.0]
    check_finite(result, "step 1")


@pytest.mark.parametrize("stream", ["values", "old_values", "returns"])
@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
def test_case_b1_run_3(stream, broken):
    given = {"values": [0.0, 0.0], "old_values": [0.0, 0.0], "returns": [1.0, 1.0]}
    given[stream][0] = broken
    found = value_streams(**given, mask=[1, 0])
    with pytest.raises(FloatingPointError):
        check_finite(value_loss(found, totals(found), clip=0.5), "step 1")


@pytest.mark.parametrize("layout", [[[0, 1]], [[0], [1]]])
@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [(Aggregation("token"), 0.2), (Aggregation("sequence"), 0.5)],
    ids=["token", "sequence"],
)
def test_case_b2(layout, aggregation, expected):
    """2 tokens with loss 1 (an error of sqrt 2) and 8 with loss 0, as one micro-batch and as two."""
    lengths, errors = (2, 8), (math.sqrt(2), 0.0)
    theta = torch.tensor(1.0, dtype=torch.float64, requires_grad=True)
    loss = 0.0
    for rows in layout:
        sizes = [lengths[row] for row in rows]
        returns = torch.cat([torch.full((lengths[row],), 1.0 - errors[row], dtype=torch.float64) for row in rows])
        values = theta * torch.ones_like(returns)
        ends = torch.tensor(np.cumsum([0, *sizes]))
        found = ValueStreams(values, values.detach(), returns, torch.ones(len(returns), dtype=torch.bool), ends)
        share = value_loss(found, StepTotals(tokens=10, sequences=2), 0.5, aggregation).loss
        share.backward()
        loss += share.item()
    assert loss == pytest.approx(expected, abs=1e-9)
    assert theta.grad.item() == pytest.approx(expected * math.sqrt(2), abs=1e-9)  # d/d theta of e^2/2 = e


def test_a_micro_batch_without_loss_tokens_is_a_connected_zero():
    for aggregation in AGGREGATIONS:
        found = value_streams([math.nan, 1.0], [0.0, 0.0], [0.0, 0.0], [0, 0])
        result = value_loss(found, StepTotals(10, 3), 0.5, aggregation)
        result.loss.backward()
        assert result.loss.item() == 0.0
        assert found.values.grad.tolist() == [0.0, 0.0]
        assert finalize(result.metrics) == {}

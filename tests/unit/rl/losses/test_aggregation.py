"""From token losses to one number."""

import pytest
import torch

from openrlhf.config.model import ActorConfig
from openrlhf.rl.losses.aggregation import Aggregation
from openrlhf.types import StepTotals

# Sequences of 2, 0 and 4 loss tokens.
SEQUENCE = torch.tensor([0, 0, 2, 2, 2, 2])
VALUES = torch.tensor([1.0, 3.0, 2.0, 2.0, 4.0, 8.0])


@pytest.mark.parametrize(
    ("aggregation", "total", "count", "mean"),
    [
        (Aggregation("token"), 20.0, 6, 20 / 6),
        (Aggregation("sequence"), 2.0 + 4.0, 2, 3.0),
        (Aggregation("constant", 10), 2.0, 2, 1.0),  # (4 + 16) / 10, over 2 sequences
    ],
)
def test_by_hand(aggregation, total, count, mean):
    weights = aggregation.weigh(SEQUENCE, 3, VALUES)
    assert weights.sum(VALUES).item() == pytest.approx(total)
    assert weights.count.item() == count
    share = weights.sum(VALUES).item() / aggregation.denominator(StepTotals(tokens=6, sequences=2))
    assert share == pytest.approx(mean)


def test_no_loss_tokens():
    nothing = torch.zeros(0)
    for aggregation in (Aggregation("token"), Aggregation("sequence"), Aggregation("constant", 10)):
        weights = aggregation.weigh(nothing.long(), 2, nothing)
        assert (weights.sum(nothing).item(), weights.count.item()) == (0.0, 0)
        assert aggregation.denominator(StepTotals(0, 0)) == 1.0


def test_from_config():
    assert Aggregation.from_config(ActorConfig(), 100) == Aggregation("token")
    assert Aggregation.from_config(ActorConfig(loss_aggregation="sequence"), None) == Aggregation("sequence")
    assert Aggregation.from_config(ActorConfig(loss_aggregation="constant"), 100) == Aggregation("constant", 100)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("constant",), "'constant' needs a length of at least 1, got None"),
        (("constant", 0), "got 0"),
        (("token", 5), "'token' takes no length"),
    ],
)
def test_wrong_lengths(arguments, message):
    with pytest.raises(ValueError, match=message):
        Aggregation(*arguments)


def test_metrics_of_a_constant_length_are_means_over_tokens():
    assert Aggregation("constant", 10).for_metrics == Aggregation("token")
    assert Aggregation("sequence").for_metrics == Aggregation("sequence")

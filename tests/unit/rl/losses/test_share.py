"""A step with a broken loss stops."""

import math

import pytest
import torch

from openrlhf.rl.losses.share import LossShare, check_finite
from openrlhf.rl.metrics import MetricSum


def test_finite_passes():
    check_finite(LossShare(torch.tensor(1.0), {"train/kl": MetricSum(2.0, 1)}), "step 1")


@pytest.mark.parametrize(
    ("loss", "metric", "message"),
    [
        (math.nan, 0.0, "step 7: loss = nan; a trained token"),
        (1.0, math.inf, "step 7: train/kl = inf; a trained token"),
        (-math.inf, math.nan, "step 7: loss = -inf, train/kl = nan"),
    ],
)
def test_what_is_broken_is_named(loss, metric, message):
    with pytest.raises(FloatingPointError, match=message):
        check_finite(LossShare(torch.tensor(loss), {"train/kl": MetricSum(metric, 1)}), "step 7")

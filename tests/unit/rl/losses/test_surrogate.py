"""The clipped surrogate."""

import math

import pytest
import torch

from openrlhf.rl.losses.objective import PolicyObjective
from openrlhf.rl.losses.surrogate import clipped_surrogate


def surrogate(ratio, advantage, **settings):
    """(loss, its slope by the ratio, whether clipping acted) of one token."""
    found = torch.tensor([ratio], requires_grad=True)
    result = clipped_surrogate(found, torch.tensor([advantage]), PolicyObjective(**settings))
    result.losses.sum().backward()
    return result.losses.item(), found.grad.item(), result.clipped.item()


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "slope", "clipped"),
    [
        # Clip 0.2 below, 0.3 above; the slope is -A inside, 0 where the clip acts.
        (1.0, 2.0, -2.0, -2.0, False),
        (1.25, 2.0, -2.5, -2.0, False),
        (1.5, 2.0, -2.6, 0.0, True),  # -1.3 * 2
        (0.5, 2.0, -1.0, -2.0, False),  # the smaller surrogate is the free one
        (0.5, -2.0, 1.6, 0.0, True),  # 0.8 * 2
        (1.5, -2.0, 3.0, 2.0, False),
        (4.0, -2.0, 8.0, 2.0, False),
    ],
)
def test_clip_by_hand(ratio, advantage, loss, slope, clipped):
    assert surrogate(ratio, advantage, clip_low=0.2, clip_high=0.3) == pytest.approx((loss, slope, clipped), rel=1e-6)


@pytest.mark.parametrize(
    ("ratio", "advantage", "loss", "slope"),
    # c = 3: for A = -2 the loss is at most 6; a ratio of 4 gives 8 without it. A > 0 is never touched.
    [(4.0, -2.0, 6.0, 0.0), (2.0, -2.0, 4.0, 2.0), (4.0, 2.0, -2.4, 0.0)],
)
def test_dual_clip_by_hand(ratio, advantage, loss, slope):
    assert surrogate(ratio, advantage, dual_clip=3.0)[:2] == pytest.approx((loss, slope), rel=1e-6)


def test_a_broken_ratio_shows():
    result = clipped_surrogate(torch.tensor([math.nan]), torch.tensor([-1.0]), PolicyObjective(dual_clip=3.0))
    assert result.losses.isnan().all()

"""Importance weights between the trainer's and the engine's probabilities."""

import math

import numpy as np
import pytest
import torch

from openrlhf.config.algo import AdvantageConfig
from openrlhf.rl.correction import CORRECTIONS, Correction, importance_weights, raw_weight_metrics, weight_metrics
from openrlhf.rl.metrics import finalize
from tests.unit.rl import reference

# Two sequences of three tokens with w = 0.25, 1, 8 (geometric mean 2^(1/3) = 1.26) and 8, 8, 1 (16^(2/3)... = 4);
# a third of two tokens with w = 8, 16, geometric mean 2^3.5 = 11.3.
RATIOS = [0.25, 1.0, 8.0, 8.0, 8.0, 1.0, 8.0, 16.0]
SEQUENCE = [0, 0, 0, 1, 1, 1, 2, 2]


def weigh(kind, ratios=None, sequence=SEQUENCE, low=0.5, high=5.0):
    old = torch.tensor(ratios or RATIOS).log().requires_grad_()
    found = importance_weights(old, torch.zeros_like(old), torch.tensor(sequence), 4, Correction(kind, low, high))
    assert not found.weight.requires_grad
    return found


@pytest.mark.parametrize(
    ("kind", "weights", "clamped", "masked"),
    [
        ("tis", [0.5, 1, 5, 5, 5, 1, 5, 5], 6, 0),
        ("icepop", [0, 1, 0, 0, 0, 1, 0, 0], 0, 6),
        # The third sequence leaves; the weights of the others are truncated (SPEC 1.6: they must be).
        ("seq-mask-tis", [0.5, 1, 5, 5, 5, 1, 0, 0], 4, 2),
        # Products 2, 64 and 128: inside, and twice over 5.
        ("seq-tis", [2, 2, 2, 5, 5, 5, 5, 5], 5, 0),
    ],
)
def test_by_hand(kind, weights, clamped, masked):
    found = weigh(kind)
    assert found.weight.tolist() == pytest.approx(weights)
    assert (found.clamped.sum().item(), found.masked.sum().item()) == (clamped, masked)


def test_thresholds_are_inside():
    # Powers of two are exact under log and exp in float32 to 1 ulp; use a threshold beyond that.
    found = weigh("icepop", [0.5, 2.0, 0.49, 2.05], [0, 1, 2, 3], low=0.4999999, high=2.0000005)
    assert found.masked.tolist() == [False, False, True, True]
    one = weigh("icepop", [1.0], [0], low=1.0, high=1.0)
    assert one.weight.tolist() == [1.0]


def test_metrics_by_hand():
    # Before thresholds: sum 50.25 over 8, max 16, squares 0.0625 + 1 + 64*4 + 1 + 256 = 514.0625,
    # ess = 50.25^2 / (8 * 514.0625) = 0.614.
    values = finalize(weight_metrics(weigh("tis")))
    assert values == pytest.approx(
        {
            "train/is_weight_mean": 6.28125,
            "train/is_weight_max": 16.0,
            "train/is_ess": 50.25**2 / (8 * 514.0625),
            "train/is_clamped_rate": 0.75,
            "train/is_masked_rate": 0.0,
        },
        rel=1e-5,
    )


def test_thresholds_do_not_touch_what_is_logged_of_raw_weights():
    assert raw_weight_metrics(weigh("tis")) == raw_weight_metrics(weigh("icepop", low=0.9, high=1.1))
    # seq-tis: raw are the products, 2 three times, 64 three times, 128 twice: mean 454/8.
    assert finalize(raw_weight_metrics(weigh("seq-tis")))["train/is_weight_mean"] == pytest.approx(454 / 8, rel=1e-5)


def test_the_exponent_of_a_product_is_clamped():
    found = weigh("seq-tis", [math.exp(15)] * 3, [0, 0, 0], high=math.inf)
    assert found.weight.tolist() == pytest.approx([math.exp(20)] * 3, rel=1e-5)


def test_equal_weights_have_a_full_effective_sample_size():
    assert finalize(weight_metrics(weigh("tis", [1.0] * 8)))["train/is_ess"] == pytest.approx(1.0)


def test_exponent_is_clamped():
    old = torch.tensor([1e4])
    found = importance_weights(old, torch.zeros(1), torch.tensor([0]), 1, Correction("tis", 0.5, math.inf))
    assert found.weight.item() == pytest.approx(math.exp(20), rel=1e-5)


@pytest.mark.parametrize("kind", CORRECTIONS)
@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_a_broken_ratio_shows(kind, broken):
    old = torch.tensor([broken, 0.0])
    found = importance_weights(old, torch.zeros(2), torch.tensor([0, 1]), 2, Correction(kind, 0.5, 5.0))
    assert found.weight[0].isnan()
    assert found.weight[1] == 1.0


@pytest.mark.parametrize("kind", CORRECTIONS)
@pytest.mark.parametrize("seed", range(10))
def test_matches_the_reference(kind, seed):
    rng = np.random.default_rng(seed)
    sequence = np.sort(rng.integers(0, 4, size=15))
    ratios = rng.normal(scale=1.2, size=15)
    found = importance_weights(
        torch.from_numpy(ratios), torch.zeros(15), torch.from_numpy(sequence), 4, Correction(kind, 0.5, 5.0)
    )
    expected = []
    for s in range(4):
        own = ratios[sequence == s].tolist()
        expected += [reference.importance_weight(kind, own, i, 0.5, 5.0) for i in range(len(own))]
    assert found.weight.tolist() == pytest.approx(expected, rel=1e-12)


def test_from_config():
    assert Correction.from_config(AdvantageConfig()) is None
    config = AdvantageConfig(is_correction_enable=True, is_correction_type="icepop", is_correction_threshold=(0.1, 2.0))
    assert Correction.from_config(config) == Correction("icepop", 0.1, 2.0)


def test_unknown_kind():
    with pytest.raises(ValueError, match="'mis', one of tis, icepop, seq-mask-tis, seq-tis"):
        weigh("mis")

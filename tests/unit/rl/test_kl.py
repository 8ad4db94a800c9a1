"""KL estimators and coefficient controllers."""

import math
import random

import pytest
import torch

from openrlhf.config.algo import KlConfig
from openrlhf.rl.kl import AdaptiveKL, FixedKL, kl_estimate, make_kl_controller
from tests.unit.rl import reference


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        # d = -1 - (-1.5) = 0.5 and d = -2 - (-1) = -1
        ("k1", [0.5, -1.0]),
        ("k2", [0.125, 0.5]),  # 0.25/2, 1/2
        ("k3", [0.1065307, 0.7182818]),  # e^-0.5 - 1 + 0.5 = 0.6065307 - 0.5; e - 2
    ],
)
def test_estimators_by_hand(estimator, expected):
    found = kl_estimate(torch.tensor([-1.0, -2.0]), torch.tensor([-1.5, -1.0]), estimator)
    assert found.tolist() == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_estimators_match_the_reference(estimator):
    rng = random.Random(0)
    new = [rng.uniform(-30, 0) for _ in range(200)]
    ref = [rng.uniform(-30, 0) for _ in range(200)]
    found = kl_estimate(torch.tensor(new, dtype=torch.float64), torch.tensor(ref, dtype=torch.float64), estimator)
    expected = [reference.kl(n, r, estimator) for n, r in zip(new, ref, strict=True)]
    assert found.tolist() == pytest.approx(expected, rel=1e-12)


def test_k3_of_a_small_difference_survives_float32():
    # d = 2^-12: k3 = d^2/2 - d^3/6 + ... = 2.9800e-8, half of what float32 resolves next to 1: exp(-d) - 1 + d gives
    # 0 or 6e-8.
    found = kl_estimate(torch.tensor([2.0**-12]), torch.tensor([0.0]), "k3")
    assert found.item() == pytest.approx(2.98e-8, rel=2e-3)


def test_a_large_difference_keeps_value_and_gradient_where_a_clamped_value_would_not():
    # k3 at d = -5: e^5 - 6 = 142.41; gradient 1 - e^5 = -147.41. Clamping the value to 10 would make it 0.
    new = torch.tensor([-5.0], requires_grad=True)
    found = kl_estimate(new, torch.tensor([0.0]), "k3")
    found.sum().backward()
    assert found.item() == pytest.approx(142.4132, rel=1e-5)
    assert new.grad.item() == pytest.approx(-147.4132, rel=1e-5)


def test_k3_does_not_overflow():
    assert kl_estimate(torch.tensor([-1e4]), torch.tensor([0.0]), "k3").isfinite().all()


@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("estimator", ["k1", "k2", "k3"])
def test_what_is_not_finite_is_not_hidden_by_the_clamp(broken, estimator):
    assert kl_estimate(torch.tensor([0.0]), torch.tensor([broken]), estimator).isnan().all()


def test_unknown_estimator():
    with pytest.raises(ValueError, match="k4"):
        kl_estimate(torch.zeros(1), torch.zeros(1), "k4")


def test_adaptive_controller_by_hand():
    controller = make_kl_controller(KlConfig(init_coef=0.1, target=2.0, horizon=1000))
    controller.update(2.2, 100)  # error 0.1 -> 0.1 * (1 + 0.1 * 100 / 1000) = 0.101
    assert controller.coef == pytest.approx(0.101)
    controller.update(20.0, 100)  # error clipped to 0.2 -> 0.101 * 1.02
    assert controller.coef == pytest.approx(0.10302)
    controller.update(-5.0, 100)  # clipped to -0.2 -> 0.10302 * 0.98
    assert controller.coef == pytest.approx(0.1009596)
    controller.update(None, 100)
    assert controller.coef == pytest.approx(0.1009596)


def test_adaptive_controller_resumes():
    controller = AdaptiveKL(0.1, 2.0, 1000)
    controller.update(4.0, 500)
    resumed = AdaptiveKL(0.1, 2.0, 1000)
    resumed.load_state_dict(controller.state_dict())
    assert resumed.coef == controller.coef != 0.1


def test_a_target_that_a_resumed_run_sets_begins_at_the_flag():
    resumed = AdaptiveKL(0.1, 2.0, 1000)
    resumed.load_state_dict(FixedKL(0.5).state_dict())
    assert resumed.coef == 0.1


def test_adaptive_controller_refuses_a_broken_measurement():
    with pytest.raises(FloatingPointError, match="nan"):
        AdaptiveKL(0.1, 2.0, 1000).update(math.nan, 1)


def test_adaptive_controller_needs_a_positive_target():
    with pytest.raises(ValueError, match="target 0"):
        AdaptiveKL(0.1, 0.0, 1000)


def test_fixed_controller_stays_and_is_never_negative():
    controller = make_kl_controller(KlConfig(init_coef=0.01))
    controller.update(5.0, 100)
    controller.load_state_dict(controller.state_dict())
    assert controller.coef == 0.01
    assert FixedKL(-1.0).coef == 0.0


def test_a_batch_of_many_horizons_moves_the_coefficient_by_a_fifth_at_most():
    controller = AdaptiveKL(0.1, 2.0, 100)
    controller.update(0.0, 1000)  # error -1 clipped to -0.2; 1 - 0.2 * 10 would be -1: 0.1 * 0.8 instead
    assert controller.coef == pytest.approx(0.08)
    controller.update(20.0, 1000)
    assert controller.coef == pytest.approx(0.096)

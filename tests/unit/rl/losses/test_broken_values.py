"""Case b1 for every policy loss, KL, entropy and importance weights.

Nothing off the mask is read, and nothing broken on it is hidden.
"""

import itertools
import math

import pytest
import torch

from openrlhf.rl.losses.aggregation import Aggregation
from openrlhf.rl.losses.objective import PolicyObjective
from openrlhf.rl.losses.policy_loss import policy_loss
from openrlhf.rl.losses.share import check_finite
from openrlhf.rl.metrics import finalize
from openrlhf.types import StepTotals
from tests.unit.rl.losses.making import corrected_objectives, label, streams, totals

GSPO = {"loss_type": "gspo", "aggregation": Aggregation("sequence")}
EVERYTHING = list(corrected_objectives(entropy_coef=0.01, kl_estimator="k3", kl_in_loss=True))


@pytest.mark.parametrize(
    ("settings", "loss"), [({}, -1.0), (GSPO, -1.0), ({"loss_type": "cispo"}, 0.0)], ids=["ppo", "gspo", "cispo"]
)
@pytest.mark.parametrize("broken", [math.nan, -1e4, math.inf, -math.inf])
def test_runs_1_and_2(settings, loss, broken):
    """log_probs [0, 0], old [0, broken], advantages [1, 1], mask [1, 0] -> loss -1, KL metric 0, gradient [-1, 0].

    The loss of cispo is -A times the logprob, 0 here; its gradient is the same.
    """
    found = streams([0.0, 0.0], [1.0, 1.0], [1, 0], old_logprobs=[0.0, broken])
    result = policy_loss(found, totals(found), PolicyObjective(**settings))
    result.loss.backward()
    assert result.loss.item() == loss
    assert found.logprobs.grad.tolist() == [-1.0, 0.0]
    assert finalize(result.metrics)["train/ppo_kl"] == 0.0
    check_finite(result, "step 1")


@pytest.mark.parametrize("settings", [{}, GSPO, {"loss_type": "cispo"}], ids=["ppo", "gspo", "cispo"])
def test_run_3(settings):
    found = streams([0.0, 0.0], [1.0, 1.0], [1, 0], old_logprobs=[math.nan, 0.0])
    result = policy_loss(found, totals(found), PolicyObjective(**settings))
    assert result.loss.isnan()
    with pytest.raises(FloatingPointError, match="step 7: loss = nan"):
        check_finite(result, "step 7")


CLEAN = {
    "logprobs": [-0.5, -1.0, -0.7, -0.2],
    "advantages": [1.0, -2.0, 0.5, 1.0],
    "old_logprobs": [-0.6, -0.9, -0.7, -0.2],
    "rollout_logprobs": [-0.7, -0.8, -0.6, -0.2],
    "ref_logprobs": [-0.4, -1.2, -0.7, -0.1],
    "entropy": [1.0, 2.0, 1.5, 0.5],
}


def run(where, name, broken, objective):
    """Two sequences of 2 tokens with mask 1 1, 1 0; one value replaced."""
    values = {key: list(value) for key, value in CLEAN.items()}
    if name is not None:
        values[name][where] = broken
    found = streams(values.pop("logprobs"), values.pop("advantages"), [1, 1, 1, 0], [0, 2, 4], **values)
    result = policy_loss(found, totals(found), objective, kl_coef=0.1)
    result.loss.backward()
    return result, found.logprobs.grad


@pytest.mark.parametrize("objective", EVERYTHING, ids=label)
def test_broken_values_off_the_mask_change_nothing_at_all(objective):
    clean, clean_grad = run(3, None, 0.0, objective)
    for broken in (math.nan, math.inf, -1e4):
        for name in CLEAN:
            found, grad = run(3, name, broken, objective)
            assert torch.equal(found.loss, clean.loss)
            assert torch.equal(grad, clean_grad)
            assert found.metrics == clean.metrics


@pytest.mark.parametrize("objective", EVERYTHING, ids=label)
def test_broken_values_on_the_mask_are_never_hidden(objective):
    for name, broken in itertools.product(CLEAN, (math.nan, math.inf, -math.inf)):
        found, _ = run(1, name, broken, objective)
        with pytest.raises(FloatingPointError):
            check_finite(found, "step")


def test_a_micro_batch_without_loss_tokens_is_a_connected_zero():
    for objective in EVERYTHING:
        found = streams([math.nan, -1.0], [1.0, 1.0], [0, 0], ref_logprobs=[0.0, 0.0], entropy=[0.0, 0.0])
        result = policy_loss(found, StepTotals(10, 3), objective, kl_coef=0.1)
        result.loss.backward()
        assert result.loss.item() == 0.0
        assert found.logprobs.grad.tolist() == [0.0, 0.0]
        assert finalize(result.metrics) == {}

"""Metrics that add up, and the statistics of a batch of rollouts."""

import math

import pytest

from openrlhf.rl.metrics import MetricSum, finalize, merge, rollout_metrics
from openrlhf.types import RewardOutcome, Rollout, RolloutGroup
from tests.unit.rl.samples import group, rollout, segment


def test_means_are_weighted():
    # 10/2 and 2/8: (10 + 2)/10 = 1.2, not (5 + 0.25)/2.
    merged = merge([{"a": MetricSum(10, 2)}, {"a": MetricSum(2, 8), "b": MetricSum(3, 1)}])
    assert finalize(merged) == {"a": 1.2, "b": 3.0}


@pytest.mark.parametrize("order", [1, -1])
def test_maxima(order):
    parts = [{"a": MetricSum(v, w, "max")} for v, w in [(-3.0, 1), (-1.0, 2), (0.0, 0)]][::order]
    assert finalize(merge(parts)) == {"a": -1.0}
    parts.insert(1, {"a": MetricSum(math.nan, 1, "max")})
    assert math.isnan(finalize(merge(parts))["a"])


def test_effective_sample_size():
    # Weights 1, 1 | 4: (1 + 1 + 4)^2 / (3 * (1 + 1 + 16)) = 36/54.
    parts = [{"a": MetricSum(2, 2, "ess", 2)}, {"a": MetricSum(4, 1, "ess", 16)}]
    assert finalize(merge(parts))["a"] == pytest.approx(2 / 3)
    assert MetricSum(0, 3, "ess", 0).value() == 0.0


def test_what_was_not_measured_is_left_out():
    assert finalize({"a": MetricSum(0, 0), "b": MetricSum(0, 0, "max")}) == {}


def test_kinds_do_not_mix():
    with pytest.raises(ValueError, match="of kind mean with one of kind max"):
        merge([{"a": MetricSum(1, 1)}, {"a": MetricSum(1, 1, "max")}])


def test_rollout_metrics_by_hand():
    # Rewards 1, 0, 0.5, 0.5: mean 0.5, population std sqrt(0.5/4) = 0.353553. Group stds: sqrt(0.5) = 0.707107, 0.
    # Sampled tokens: sample a/0 has segments with 2 and 1 actions (3), the others 2 -> 9/4.
    # Tokens: 3 + 2, 3, 3, 3 -> 14/4.
    two = rollout("a", 0, 1.0, segment([1, 2, 3], [0, 1, 1]), segment([1, 2], [0, 1]), truncated=True)
    groups = [RolloutGroup("a", (two, rollout("a", 1, 0.0))), group("b", [0.5, 0.5])]
    assert rollout_metrics(groups) == pytest.approx(
        {
            "rollout/num_samples": 4,
            "rollout/reward_mean": 0.5,
            "rollout/reward_std": 0.353553,
            "rollout/score_mean": 0.5,
            "rollout/response_length_mean": 2.25,
            "rollout/total_length_mean": 3.5,
            "rollout/truncated_rate": 0.25,
            "rollout/group_reward_std": 0.353553,
            "rollout/constant_group_rate": 0.5,
        },
        abs=1e-6,
    )


def test_single_samples_have_no_group_statistics():
    assert "rollout/group_reward_std" not in rollout_metrics([group("a", [1.0])])


def test_no_samples():
    assert rollout_metrics([]) == {"rollout/num_samples": 0.0}


def test_extra_logs_are_averaged_over_the_samples_that_have_them():
    logs = [{"acc": 1.0}, {"acc": 0.0, "steps": 3.0}, {"acc": math.nan}]
    base = rollout("a", 0, 1.0)
    rollouts = tuple(
        Rollout("a", f"a/{i}", base.prompt, base.segments, RewardOutcome(1.0, 1.0, extra_logs=log), False)
        for i, log in enumerate(logs)
    )
    metrics = rollout_metrics([RolloutGroup("a", rollouts)])
    assert (metrics["rollout/extra/acc"], metrics["rollout/extra/steps"]) == (0.5, 3.0)

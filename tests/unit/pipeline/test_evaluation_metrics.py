"""Scores of held-out samples, by hand."""

import math

import numpy as np
import pytest

from openrlhf.pipeline.evaluate import evaluation_metrics
from openrlhf.types import Prompt, RewardOutcome, Rollout, RolloutGroup, Segment


def group(name: str, scores: list[float | None], source: str = "default", actions: int = 2) -> RolloutGroup:
    """One sample per score (None: ungraded) of so many sampled tokens; the reward is 10 times the score."""
    mask = np.array([False] + [True] * actions)
    segment = Segment(
        token_ids=np.arange(actions + 1),
        action_mask=mask,
        loss_mask=mask,
        logprobs=np.zeros(actions + 1, np.float32),
        policy_versions=np.where(mask, 0, -1).astype(np.int32),
    )
    outcomes = [RewardOutcome.ungraded("-") if s is None else RewardOutcome(10 * s, s) for s in scores]
    prompt = Prompt(0, name, datasource=source)
    rollouts = [Rollout(name, f"{name}{i}", prompt, (segment,), o, truncated=i == 0) for i, o in enumerate(outcomes)]
    return RolloutGroup(name, tuple(rollouts))


def test_pass1_is_a_mean_of_means_and_pass_n_of_the_best():
    groups = [group("a", [0.0, 1.0, 0.5, 0.5]), group("b", [0.25, 0.0, 0.0, 0.75], actions=5)]
    # Scores, not rewards: (0.5 + 0.25) / 2 and (1 + 0.75) / 2. Lengths (4 * 2 + 4 * 5) / 8; 2 of 8 are truncated.
    assert evaluation_metrics(groups, 4) == {
        "eval_default_pass1": 0.375,
        "eval_default_pass4": 0.875,
        "eval_response_length_mean": 3.5,
        "eval_truncated_rate": 0.25,
        "eval_num_samples": 8.0,
        "eval_ungraded_rate": 0.0,
    }


def test_sources_are_kept_apart():
    metrics = evaluation_metrics([group("a", [1.0], "gsm8k"), group("b", [0.0], "math"), group("c", [0.5], "math")], 1)
    assert metrics["eval_gsm8k_pass1"] == 1.0
    assert metrics["eval_math_pass1"] == 0.25
    assert not any("default" in name for name in metrics)


def test_ungraded_samples_are_counted_and_never_score_0():
    metrics = evaluation_metrics([group("a", [1.0, None]), group("b", [None, None]), group("c", [0.0, 1.0])], 2)
    # a: 1 of its one graded sample; b leaves; c: 0.5.
    assert metrics["eval_default_pass1"] == 0.75
    assert metrics["eval_default_pass2"] == 1.0
    assert metrics["eval_ungraded_rate"] == pytest.approx(3 / 6)
    assert metrics["eval_num_samples"] == 6
    assert all(math.isfinite(value) for value in metrics.values())

"""Rewards from reward models: every waiting sample gets the score of its own sequence."""

import numpy as np
import pytest

from openrlhf.data.prompts import PromptSet
from openrlhf.pipeline.evaluate import evaluate
from openrlhf.pipeline.grading import grade
from openrlhf.pipeline.ppo_sync import train
from openrlhf.reward.pending import PENDING
from openrlhf.types import Prompt, RewardOutcome, Rollout, RolloutGroup, Segment, Status

MODEL = {"reward.model_name_or_path": "owner/rm"}


def segment(tokens: int) -> Segment:
    actions = np.arange(tokens) >= 2
    return Segment(
        token_ids=np.arange(3, 3 + tokens),
        action_mask=actions,
        loss_mask=actions,
        logprobs=np.zeros(tokens, np.float32),
        policy_versions=np.where(actions, 0, -1).astype(np.int32),
    )


def sample(name: str, *lengths: int, reason: str = PENDING) -> Rollout:
    group = name.split("/")[0]
    outcome = RewardOutcome.ungraded(reason)
    return Rollout(group, name, Prompt(0, "p"), tuple(map(segment, lengths)), outcome, truncated=False)


@pytest.mark.parametrize("changes", [{}, {"ds.share_prompts": False}, {"train.dynamic_batch_enable": True}])
def test_each_sample_gets_the_score_of_its_last_segment(rig, changes):
    run = rig(MODEL | changes)
    groups = [
        RolloutGroup("a", (sample("a/0", 5), sample("a/1", 4, 9))),
        RolloutGroup("b", (sample("b/0", 7), sample("b/1", 8, reason="generation aborted"), sample("b/2", 6))),
    ]
    graded = grade(run.job, groups)
    assert [group.group_id for group in graded] == ["a", "b"]
    outcomes = {r.sample_id: r.outcome for group in graded for r in group.rollouts}
    # The fake's score is the number of tokens; what was aborted is no business of the reward model.
    assert {name: outcome.reward for name, outcome in outcomes.items() if outcome.status is Status.GRADED} == {
        "a/0": 5.0,
        "a/1": 9.0,
        "b/0": 7.0,
        "b/2": 6.0,
    }
    assert outcomes["b/1"].reason == "generation aborted"
    assert [len(r.segments) for group in graded for r in group.rollouts] == [1, 2, 1, 1, 1]


def test_a_score_that_is_not_finite_is_no_verdict(rig):
    run = rig(MODEL)
    run.job.cluster.reward.score_of = lambda tokens: float("nan") if tokens == 5 else float(tokens)
    (group,) = grade(run.job, [RolloutGroup("a", (sample("a/0", 5), sample("a/1", 6)))])
    assert [r.outcome.status for r in group.rollouts] == [Status.UNGRADED, Status.GRADED]
    assert "nan" in group.rollouts[0].outcome.reason


def test_without_reward_models_nothing_changes(rig):
    groups = [RolloutGroup("a", (sample("a/0", 5),))]
    assert grade(rig().job, groups) == groups


def test_a_run_is_graded_after_generation_and_before_training(rig):
    held_out = PromptSet([Prompt(0, "held out")])
    run = rig(MODEL, prompts=2, reward=lambda prompt, index: PENDING, eval_prompts=held_out)
    train(run.job)
    assert run.log == ["generate", "reward scores", "train", "push 1 by shm"]
    (row,) = run.rows()
    assert row["rollout/reward_mean"] == 5.0  # the fake's samples have 2 + 3 tokens
    assert row["rollout/ungraded_rate"] == 0.0
    assert evaluate(run.job)["eval_default_pass1"] == 5.0

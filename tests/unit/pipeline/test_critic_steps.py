"""PPO with a critic: values before the update, the critic trained first, the policy frozen at the start."""

import numpy as np
import pytest

from openrlhf.pipeline.ppo_sync import train
from openrlhf.pipeline.stages import export

GAE = {"algo.advantage.estimator": "gae"}


def test_the_critic_is_asked_before_and_trained_before_the_policy(rig):
    run = rig(GAE | {"algo.kl.init_coef": 0.1}, prompts=2)
    train(run.job)
    assert run.log == [
        "generate",
        "policy logprobs",
        "critic values",
        "reference logprobs",
        "train critic",
        "train",
        "push 1 by shm",
    ]
    (row,) = run.rows()
    assert row["train/critic_loss"] == 1.5  # 12 loss tokens on each rank, of loss 1 and 2
    assert {"timing/critic_train", "timing/ppo_train"} <= row.keys()


def test_values_and_returns_reach_the_critic(rig):
    """lambda 1, gamma 1: the return of every token is the reward, whatever the values."""
    run = rig(GAE, prompts=2)
    train(run.job)
    for own in run.critic.steps[0]:
        for batch in own:
            np.testing.assert_array_equal(batch.values, np.where(batch.action_mask, 0.25, 0.0))
            assert set(batch.returns[batch.action_mask].tolist()) <= {0.0, 1.0}
    rewards = [batch.returns[batch.action_mask].mean() for own in run.critic.steps[0] for batch in own]
    assert {float(r) for r in rewards} != {0.0}


def test_a_frozen_policy_is_neither_trained_nor_pushed(rig):
    run = rig(GAE | {"critic.freezing_steps": 1}, prompts=4)
    train(run.job)
    assert run.log == [
        *["generate", "critic values", "train critic"],
        *["generate", "critic values", "train critic", "train", "push 1 by shm"],
    ]
    assert (run.job.step, run.job.version) == (2, 1)
    frozen, trained = run.rows()
    assert "train/tokens_trained" not in frozen
    assert trained["train/tokens_trained"] == 24
    assert (run.job.length.optimiser_steps, run.job.length.policy_steps) == (2, 1)


def test_the_kl_weight_adapts_to_a_policy_that_moves_only(rig):
    adaptive = {"algo.kl.init_coef": 0.1, "algo.kl.target": 1.0, "algo.kl.horizon": 100.0}
    run = rig(GAE | adaptive | {"critic.freezing_steps": 1}, prompts=4)
    train(run.job)
    frozen, trained = run.rows()
    assert frozen["train/kl_coef"] == 0.1
    assert trained["train/kl_coef"] != 0.1


@pytest.mark.parametrize("steps", [-1, 0])
def test_without_freezing_the_first_step_trains_both(rig, steps):
    run = rig(GAE | {"critic.freezing_steps": steps}, prompts=2)
    train(run.job)
    assert run.log.count("train") == run.log.count("train critic") == 1


def test_epochs_and_optimiser_steps_of_both(rig):
    run = rig(GAE | {"train.batch_size": 4, "train.max_epochs": 2}, prompts=2)
    train(run.job)
    assert len(run.critic.steps) == len(run.policy.steps) == 4
    assert [entry for entry in run.log if str(entry).startswith("train")] == ["train critic"] * 4 + ["train"] * 4


def test_sleeping_models_are_awake_for_just_as_long_as_they_work(rig, tmp_path):
    changes = {"ds.enable_sleep": True, "vllm.enable_sleep": True, "critic.save_value_network": True}
    run = rig(GAE | changes, prompts=2)
    train(run.job)
    export(run.job, tmp_path / "run")
    assert run.log == [
        "policy sleeps",
        "critic sleeps",
        *[("wake", None), "generate", "sleep"],
        *["critic wakes", "critic values", "critic sleeps"],
        *["critic wakes", "train critic", "critic sleeps"],
        *["policy wakes", "train", "policy sleeps"],
        *[("wake", ("weights",)), "policy wakes", "push 1 by shm", "policy sleeps"],
        *["policy wakes", ("save", tmp_path / "run"), "policy sleeps"],
        *["critic wakes", ("save critic", tmp_path / "run_critic"), "critic sleeps"],
    ]

"""The whole synchronous loop over fakes: order of the stages, ledger, versions, what is trained and what is logged."""

from itertools import chain

import numpy as np
import pytest

from openrlhf.data.ledger import PromptState
from openrlhf.data.prompts import PromptSet
from openrlhf.pipeline.ppo_sync import train
from openrlhf.rl.filtering import UngradedAbort
from openrlhf.track.rollout_file import read_samples
from openrlhf.types import Prompt


def trained_rows(step) -> int:
    return sum(int(row >= 0) for own in step for batch in own for row in batch.rows)


def test_two_steps_in_the_order_of_the_loop(rig, tmp_path):
    run = rig()
    train(run.job)
    assert run.log == ["generate", "train", "push 1 by shm", "generate", "train", "push 2 by shm"]
    assert run.job.step == run.job.version == run.engines.version == 2
    assert run.job.ledger.counts()[PromptState.TRAINED] == 4
    assert run.job.ledger.unfinished() == []
    # The samples of a step are drawn by the version that the step before pushed.
    for step in (1, 2):
        stored = read_samples(tmp_path / f"run/rollouts/step_{step:06d}.jsonl.gz")
        versions = {tuple(sample["segments"][0]["policy_versions"]) for sample in stored}
        assert versions == {(-1, -1, *[step - 1] * 3)}


def test_each_step_asks_for_its_own_prompts_and_samples(rig):
    run = rig()
    train(run.job)
    asked = [[request.prompt.prompt_id for request in step] for step in run.engines.requests]
    assert sorted(chain(*asked)) == [0, 1, 2, 3]
    assert [len(step) for step in asked] == [2, 2]
    names = [request.group_id for step in run.engines.requests for request in step]
    assert len(set(names)) == 4
    assert {request.n for step in run.engines.requests for request in step} == {4}
    assert run.engines.requests[0][0].seeds is None


def test_groups_stay_in_the_order_of_the_prompts_whichever_is_done_first(rig, tmp_path):
    run = rig()  # the fake engines finish the last prompt first
    train(run.job)
    for step, requests in enumerate(run.engines.requests, start=1):
        stored = read_samples(tmp_path / f"run/rollouts/step_{step:06d}.jsonl.gz")
        assert [sample["group_id"] for sample in stored][:2] == [request.group_id for request in requests]


def test_what_a_step_logs(rig):
    run = rig()
    train(run.job)
    first, second = run.rows()
    assert (first["step"], second["step"]) == (1, 2)
    # 2 prompts x 4 samples x 3 sampled tokens; half of the samples have reward 1; one of four is truncated.
    assert first["rollout/tokens_generated"] == first["train/tokens_trained"] == 24
    assert first["train/tokens_processed"] == 2 * 4 * 5
    assert first["rollout/reward_mean"] == first["rollout/reward_std"] == 0.5
    assert first["rollout/truncated_rate"] == 0.25
    # 4 samples on each rank: KL 1 on 12 tokens of rank 0 and 2 on 12 tokens of rank 1.
    assert first["train/kl"] == 1.5
    assert first["timing/reward"] == 0.25
    phases = {"generation", "make_experience", "ppo_train", "broadcast"}
    assert {f"timing/{name}" for name in phases} <= first.keys()
    assert sum(first[f"timing/{name}"] for name in phases) <= first["timing/step_total"]


def test_advantages_reach_the_trainer(rig):
    """A constant group has advantage exactly 0; the other's right samples have a positive one, its wrong a negative."""
    run = rig(reward=lambda prompt, index: 1.0 if prompt.prompt_id % 2 else float(index % 2), prompts=2)
    train(run.job)
    batches = [batch for own in run.policy.steps[0] for batch in own]
    values = np.concatenate([batch.advantages[batch.loss_mask] for batch in batches])
    assert len(values) == 24
    # 4 samples of 3 tokens lie at the baseline, 2 x 3 tokens above it and 2 x 3 below.
    assert [int((np.sign(values) == sign).sum()) for sign in (-1, 0, 1)] == [6, 12, 6]


def test_the_short_last_batch_is_stepped_with_its_own_denominators(rig):
    run = rig(prompts=3)
    train(run.job)
    assert [trained_rows(step) for step in run.policy.steps] == [8, 4]
    totals = [{batch.totals.tokens for own in step for batch in own} for step in run.policy.steps]
    assert totals == [{24.0}, {12.0}]
    assert run.job.version == 2
    assert run.job.ledger.counts()[PromptState.TRAINED] == 3


def test_a_step_without_any_verdict_trains_nothing_and_the_run_goes_on(rig):
    first_step: list[int] = []

    def reward(prompt: Prompt, index: int) -> float | None:
        if len(run.engines.requests) == 1:
            first_step.append(prompt.prompt_id)
            return None
        return float(index % 2)

    run = rig(reward=reward)
    train(run.job)
    assert run.log == ["generate", "generate", "train", "push 1 by shm"]
    assert run.job.step == 2
    assert run.job.version == 1
    assert {run.job.ledger.state(0, prompt) for prompt in first_step} == {PromptState.FAILED}
    assert run.job.ledger.counts()[PromptState.TRAINED] == 2
    skipped, trained = run.rows()
    assert skipped["rollout/ungraded_rate"] == 1.0
    assert skipped["rollout/dropped_group_rate"] == 1.0
    assert skipped["rollout/num_samples"] == 0
    assert skipped["rollout/tokens_generated"] == 24  # they were generated all the same
    assert "train/tokens_trained" not in skipped
    assert trained["rollout/ungraded_rate"] == 0.0


def test_samples_without_a_verdict_leave_the_step(rig):
    """Prompt 0 loses three of four samples, too many for a baseline; prompt 1 loses one."""
    lost = {0: (1, 2, 3), 1: (3,)}
    run = rig(reward=lambda prompt, index: None if index in lost[prompt.prompt_id] else float(index), prompts=2)
    train(run.job)
    assert trained_rows(run.policy.steps[0]) == 3
    (row,) = run.rows()
    assert row["rollout/num_samples"] == 3
    assert row["rollout/ungraded_rate"] == 4 / 8
    assert row["rollout/tokens_generated"] == 24
    assert row["train/tokens_trained"] == 9
    assert run.job.ledger.state(0, 0) is PromptState.FAILED
    assert run.job.ledger.state(0, 1) is PromptState.TRAINED


def test_abort_on_a_missing_verdict_stops_before_training(rig):
    run = rig({"reward.ungraded": "abort"}, reward=lambda prompt, index: None)
    with pytest.raises(UngradedAbort, match=r"reward\.ungraded"):
        train(run.job)
    assert run.log == ["generate"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        # One optimiser step: its own logprobs are the old ones.
        ({}, []),
        ({"algo.kl.init_coef": 0.1, "algo.kl.use_loss": True, "algo.kl.estimator": "k2"}, ["reference logprobs"]),
        # Several optimiser steps, or several passes.
        ({"train.batch_size": 4}, ["policy logprobs"]),
        ({"train.max_epochs": 2}, ["policy logprobs"]),
        # KL in the reward compares the policy with the reference before the step.
        ({"algo.kl.init_coef": 0.1}, ["policy logprobs", "reference logprobs"]),
    ],
)
def test_logprobs_are_computed_only_where_the_loss_needs_them(rig, changes, expected):
    run = rig(changes, prompts=2)
    train(run.job)
    assert [entry for entry in run.log if "logprobs" in entry] == expected
    batch = run.policy.steps[0][0][0]
    for field, who in ((batch.old_logprobs, "policy logprobs"), (batch.ref_logprobs, "reference logprobs")):
        assert (field is not None) == (who in expected)
        if field is not None:
            np.testing.assert_array_equal(field, np.where(batch.action_mask, -2.0, 0.0))


def test_epochs_and_optimiser_steps(rig):
    run = rig({"train.batch_size": 4, "train.max_epochs": 3}, prompts=2)
    train(run.job)
    # 8 samples in steps of 4, three times; every epoch sees every sample once, in another order.
    assert [trained_rows(step) for step in run.policy.steps] == [4] * 6
    epochs = [
        [
            sorted(row for own in step for batch in own for row in batch.rows.tolist())
            for step in run.policy.steps[i:][:2]
        ]
        for i in (0, 2, 4)
    ]
    assert all(sorted(chain(*epoch)) == list(range(8)) for epoch in epochs)
    assert len({str(epoch) for epoch in epochs}) > 1
    (row,) = run.rows()
    assert row["train/tokens_trained"] == 24 * 3
    assert run.log.count("push 1 by shm") == 1


def test_engines_sleep_outside_the_rollout_and_take_weights_half_awake(rig):
    run = rig({"vllm.enable_sleep": True}, prompts=2)
    train(run.job)
    assert run.log == [("wake", None), "generate", "sleep", "train", ("wake", ("weights",)), "push 1 by shm"]


def test_full_determinism_queues_first_and_seeds_every_sample(rig):
    run = rig({"train.full_determinism_enable": True, "train.num_episodes": 2}, prompts=2)
    train(run.job)
    assert run.log.count("generate paused") == 2
    first, second = ([request.seeds for request in step] for step in run.engines.requests)
    seeds = [seed for group in first + second for seed in group]
    assert len(set(seeds)) == 16  # also the second draw of a prompt samples anew
    again = rig({"train.full_determinism_enable": True, "train.num_episodes": 2}, prompts=2)
    train(again.job)
    assert [request.seeds for request in again.engines.requests[0]] == first


def test_the_kl_coefficient_follows_the_measured_kl(rig):
    changes = {"algo.kl.init_coef": 0.1, "algo.kl.use_loss": True, "algo.kl.estimator": "k2"}
    run = rig(changes | {"algo.kl.target": 1.0, "algo.kl.horizon": 100.0}, prompts=2)
    train(run.job)
    # KL 1.5 lies above 1.2 times the target: the coefficient grows by 0.2 * 8 samples / 100.
    assert run.job.kl.coef == pytest.approx(0.1 * 1.016)
    assert run.rows()[0]["train/kl_coef"] == run.job.kl.coef


def test_max_steps_ends_the_run(rig):
    run = rig({"train.max_steps": 3, "train.num_episodes": 100})
    train(run.job)
    assert run.job.step == 3
    assert run.log.count("train") == 3


def test_evaluation_touches_no_training_state(rig):
    held_out = PromptSet([Prompt(0, "held out"), Prompt(1, "held out too")])
    changes = {"eval.steps": 2, "eval.at_start": True, "eval.n_samples_per_prompt": 2, "eval.dataset": "x"}
    run = rig(changes, prompts=5, eval_prompts=held_out)
    train(run.job)
    steps = [row["step"] for row in run.rows()]
    assert steps == [0, 1, 2, 3]
    # At the start, after every second step, and after the last one.
    assert [row["step"] for row in run.rows() if "eval_default_pass1" in row] == [0, 2, 3]
    assert run.rows()[0].keys() >= {"eval_default_pass1", "eval_default_pass2", "eval_seconds"}
    assert run.job.ledger.counts()[PromptState.TRAINED] == 5
    assert [len(step) for step in run.engines.requests] == [2, 2, 2, 2, 1, 2]
    evaluated = [step for step in run.engines.requests if step[0].prompt.text.startswith("held out")]
    assert len({request.group_id for step in evaluated for request in step}) == 6


def test_stored_samples_carry_their_advantages(rig):
    run = rig({"logger.num_rollouts_stored": 4})
    train(run.job)
    rows = read_samples(run.job.tracker._folder / "rollouts/step_000001.jsonl.gz")
    # Rewards 0, 1, 0, 1 around a mean of 0.5; normalised over the batch they are -1 and 1.
    assert {row["reward"]: max(row["segments"][0]["advantages"], key=abs) for row in rows} == {0.0: -1.0, 1.0: 1.0}
    assert all(row["shaped_reward"] == row["reward"] for row in rows)
    named = {"step", "group_id", "sample_id", "prompt_id", "reward", "score", "extra_logs", "shaped_reward", "status"}
    assert all(named <= row.keys() for row in rows)
    per_token = {"token_ids", "action_mask", "loss_mask", "logprobs", "policy_versions", "advantages", "train_logprobs"}
    assert all({len(row["segments"][0][name]) for name in per_token} == {5} for row in rows)
    # The only optimiser step has computed the trainer's log-probabilities: -2 for every token that was sampled.
    for row in rows:
        (segment,) = row["segments"]
        assert segment["train_logprobs"] == [-2.0 * sampled for sampled in segment["action_mask"]]


def test_training_samples_keep_their_own_parameters_after_an_evaluation(rig):
    held_out = PromptSet([Prompt(0, "held out")])
    changes = {"eval.dataset": "x", "eval.steps": 1, "eval.n_samples_per_prompt": 2, "eval.temperature": 0.1}
    run = rig(changes | {"eval.top_p": 0.5, "rollout.top_p": 0.9}, eval_prompts=held_out)
    train(run.job)
    drawn = [
        (request.prompt.text == "held out", request.n, request.sampling.temperature, request.sampling.top_p)
        for batch in run.engines.requests
        for request in batch
    ]
    trained, evaluated = (False, 4, 1.0, 0.9), (True, 2, 0.1, 0.5)
    assert drawn == [trained, trained, evaluated, trained, trained, evaluated]


def test_where_every_prompt_stands_is_logged_and_said(rig, capsys):
    lost = lambda prompt, index: None if prompt.prompt_id == 0 else float(index % 2)  # noqa: E731
    run = rig({"reward.ungraded": "drop_group"}, prompts=4, reward=lost)
    train(run.job)
    last = run.rows()[-1]
    assert last["ledger/drawn_total"] == 4
    assert last["ledger/trained"] == 3
    assert last["ledger/failed"] == 1
    assert last["ledger/in_flight"] == last["ledger/waiting"] == last["ledger/stale"] == 0
    assert run.rows()[0]["ledger/drawn_total"] == 2
    assert "4 prompts drawn: 3 trained, 1 failed" in capsys.readouterr().out

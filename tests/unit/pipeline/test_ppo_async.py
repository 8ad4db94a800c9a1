"""The asynchronous loop over fakes: every prompt once, staleness bounded, nothing lost by filters or resume."""

import json
import logging
import threading
import time
from collections import Counter

import pytest

from openrlhf.data.ledger import PromptState
from openrlhf.data.prompts import PromptSet
from openrlhf.pipeline.checkpoint import resume
from openrlhf.pipeline.ppo_async import train
from openrlhf.types import Prompt

ASYNC = {"train.async_enable": True}
FILTERED = ASYNC | {
    "algo.dynamic_filtering_enable": True,
    "rollout.n_samples_per_prompt": 2,
    "rollout.batch_size": 3,
    "train.batch_size": 6,
}


def trained(run) -> Counter:
    """How often each prompt went into an optimiser step, by the rows of its samples."""
    return Counter(run.job.ledger.counts())


def asked(run) -> list[int]:
    return [request.prompt.prompt_id for batch in run.engines.requests for request in batch]


def test_every_prompt_is_trained_once_in_batches_of_the_oldest(rig):
    run = rig(ASYNC, prompts=6)
    train(run.job)
    assert sorted(asked(run)) == list(range(6))
    assert run.job.ledger.counts()[PromptState.TRAINED] == 6
    assert [row["rollout/num_samples"] for row in run.rows()] == [8, 8, 8]  # 2 prompts of 4 samples


def test_generation_goes_on_while_training(rig):
    """With one batch of queue, the prompts of the second step are asked for before the first has been trained on."""
    run = rig(ASYNC, prompts=6)
    asked_before_training = []
    whole = run.policy.train_step

    def slow(batches, kl_coef):
        deadline = time.monotonic() + 5
        while len(asked(run)) < 4 and run.job.step == 0 and time.monotonic() < deadline:
            time.sleep(0.005)
        asked_before_training.append(len(asked(run)))
        return whole(batches, kl_coef)

    run.policy.train_step = slow
    train(run.job)
    assert asked_before_training[0] >= 4


@pytest.mark.parametrize("queue", [1, 2, 3])
def test_no_more_than_the_queue_is_ahead(rig, queue):
    """In flight and buffered together: queue x 2 prompts. The batch in training left the buffer."""
    run = rig(ASYNC | {"train.async_queue_size": queue}, prompts=40)
    most = []
    whole = run.policy.train_step

    def watched(batches, kl_coef):
        time.sleep(0.01)  # the sampler fills what it may
        most.append(len(asked(run)) - 2 * (run.job.step + 1))
        return whole(batches, kl_coef)

    run.policy.train_step = watched
    train(run.job)
    assert max(most) <= 2 * queue
    assert max(row["async/staleness_max"] for row in run.rows()) <= queue


def test_what_is_too_old_is_drawn_once_more_and_then_given_up(rig):
    run = rig(ASYNC | {"train.async_queue_size": 3, "train.max_staleness": 0}, prompts=12)
    train(run.job)
    rows, counts = run.rows(), run.job.ledger.counts()
    assert all(row["async/staleness_max"] == 0 for row in rows)
    assert counts[PromptState.TRAINED] + counts[PromptState.STALE] == 12
    assert max(Counter(asked(run)).values()) <= 2
    redrawn = sum(count - 1 for count in Counter(asked(run)).values())
    assert sum(row["async/stale_groups"] for row in rows) <= redrawn + counts[PromptState.STALE]


def test_dropped_groups_are_settled_and_replaced(rig):
    def reward(prompt: Prompt, index: int) -> float:
        return 1.0 if prompt.prompt_id % 2 else float(index % 2)  # odd prompts teach nothing

    changes = ASYNC | {"algo.dynamic_filtering_enable": True, "algo.dynamic_filtering_range": (0.0, 1.0)}
    run = rig(changes, prompts=8, reward=reward)
    train(run.job)
    counts = run.job.ledger.counts()
    assert counts[PromptState.TRAINED] == 4
    assert counts[PromptState.FILTERED] == 4
    assert sum(row["rollout/num_samples"] for row in run.rows()) == 16


def test_a_failure_of_generation_ends_the_run(rig):
    run = rig(ASYNC)

    def broken(within=None):
        raise RuntimeError("the engine is gone")

    run.engines.next_group = broken
    with pytest.raises(RuntimeError, match="the engine is gone"):
        train(run.job)
    assert not any(thread.name == "sampler" for thread in threading.enumerate())


def test_evaluation_runs_beside_training_samples_and_is_not_trained_on(rig):
    held_out = PromptSet([Prompt(0, "held out", "x", datasource="held")])
    run = rig(
        ASYNC | {"eval.dataset": "x", "eval.steps": 1, "eval.n_samples_per_prompt": 2},
        prompts=4,
        eval_prompts=held_out,
    )
    train(run.job)
    assert [row["eval_held_pass1"] for row in run.rows()] == [0.5, 0.5]
    assert run.job.ledger.counts()[PromptState.TRAINED] == 4


def train_two_steps(cut) -> None:
    """Train, and break in the third step."""
    whole = cut.policy.train_step

    def killed(batches, kl_coef):
        if cut.job.step == 2:
            raise ZeroDivisionError
        time.sleep(0.01)
        return whole(batches, kl_coef)

    cut.policy.train_step = killed
    with pytest.raises(ZeroDivisionError):
        train(cut.job)
    cut.job.tracker.close()


def test_a_resumed_run_trains_what_was_waiting_and_draws_again_what_was_under_way(rig, tmp_path):
    changes = ASYNC | {"ckpt.path": str(tmp_path / "saves"), "ckpt.save_steps": 1, "train.async_queue_size": 2}
    cut = rig(changes, prompts=12)
    train_two_steps(cut)

    resumed = rig(changes, prompts=12)
    waiting = resume(resumed.job)
    assert resumed.job.step == 2
    train(resumed.job, waiting)
    counts = resumed.job.ledger.counts()
    assert counts[PromptState.TRAINED] == 12
    assert [row["step"] for row in resumed.rows()] == [1, 2, 3, 4, 5, 6]


def test_a_resumed_run_with_a_larger_batch_trains_all_that_is_left(rig, tmp_path):
    """12 prompts, 2 steps of 2; 8 are left, some of them waiting or under way: 2 steps of 4."""
    changes = ASYNC | {"ckpt.path": str(tmp_path / "saves"), "ckpt.save_steps": 1, "train.async_queue_size": 2}
    cut = rig(changes, prompts=12)
    train_two_steps(cut)

    resumed = rig(changes | {"rollout.batch_size": 4}, prompts=12)
    train(resumed.job, resume(resumed.job))
    assert resumed.job.ledger.counts()[PromptState.TRAINED] == 12
    assert (resumed.job.length.steps, resumed.job.step) == (4, 4)


@pytest.mark.parametrize("done_first", [0, -1])
def test_case_d1_what_is_accepted_is_trained_when_no_replacement_is_left(rig, done_first):
    """3 prompts of 2 samples, batch 3; the group that is scored second is all right, so it is dropped."""
    order: list[int] = []

    def reward(prompt: Prompt, index: int) -> float:
        if prompt.prompt_id not in order:
            order.append(prompt.prompt_id)
        return 1.0 if order.index(prompt.prompt_id) == 1 else float(1 - index)  # [1,0], [1,1], [1,0]

    run = rig(FILTERED, prompts=3, reward=reward)
    run.engines.done_first = done_first
    train(run.job)
    assert sorted(asked(run)) == [0, 1, 2]  # nothing was drawn twice
    assert len(run.engines.finished) == 3  # nothing was cancelled
    assert [sum(int(row >= 0) for own in step for b in own for row in b.rows) for step in run.policy.steps] == [4]
    assert run.job.ledger.state(0, order[1]) is PromptState.FILTERED
    assert run.job.ledger.counts()[PromptState.TRAINED] == 2
    assert run.job.ledger.unfinished() == []


def test_case_d1_all_rejected_is_no_update_a_plain_message_and_a_normal_end(rig, caplog):
    run = rig(FILTERED, prompts=3, reward=lambda prompt, index: 1.0)
    with caplog.at_level(logging.WARNING):
        train(run.job)
    assert run.policy.steps == []
    assert run.job.version == 0
    assert "is left to train on" in caplog.text
    assert "mean score 1 is not inside (0, 1)" in caplog.text
    assert run.job.ledger.counts()[PromptState.FILTERED] == 3


def test_training_samples_keep_their_own_parameters_beside_an_evaluation(rig):
    held_out = PromptSet([Prompt(0, "held out", "x", datasource="held")])
    changes = {"eval.dataset": "x", "eval.steps": 1, "eval.n_samples_per_prompt": 2, "eval.temperature": 0.1}
    run = rig(ASYNC | changes | {"eval.top_p": 0.5, "rollout.top_p": 0.9}, prompts=6, eval_prompts=held_out)
    train(run.job)
    drawn = {
        (request.prompt.text == "held out", request.n, request.sampling.temperature, request.sampling.top_p)
        for batch in run.engines.requests
        for request in batch
    }
    assert drawn == {(True, 2, 0.1, 0.5), (False, 4, 1.0, 0.9)}


def test_the_last_step_is_evaluated_once_though_the_loader_is_done_long_before(rig):
    held_out = PromptSet([Prompt(0, "held out", "x")])
    changes = {"eval.dataset": "x", "eval.steps": 2, "eval.n_samples_per_prompt": 1, "train.async_queue_size": 3}
    run = rig(ASYNC | changes, prompts=10, eval_prompts=held_out)
    train(run.job)
    assert [row["step"] for row in run.rows() if "eval_default_pass1" in row] == [2, 4, 5]
    assert sum(request.prompt.text == "held out" for batch in run.engines.requests for request in batch) == 3


def test_only_the_newest_policy_s_tokens_are_trained_on_where_asked(rig):
    """Every sample's 3 tokens: one of policy 0 before the two of the newest, from the second version on."""
    changes = ASYNC | {"train.mask_stale_tokens": True, "train.async_queue_size": 1}
    run = rig(changes, prompts=8)
    whole = run.engines._rollout

    def mixed(request, index):
        rollout = whole(request, index)
        (segment,) = rollout.segments
        segment.policy_versions[2] = 0
        return rollout

    run.engines._rollout = mixed
    train(run.job)
    for row in run.rows():
        # All of version 0: nothing leaves. Later: 1 token of 3, or of one group of two that straddle the push.
        assert row["async/masked_token_rate"] in (0.0, pytest.approx(1 / 6), pytest.approx(1 / 3))
        assert row["train/tokens_trained"] == pytest.approx(24 * (1 - row["async/masked_token_rate"]))
    assert run.rows()[-1]["async/masked_token_rate"] > 0


def test_prompts_that_were_drawn_once_more_are_remembered_over_a_resume(rig):
    run = rig(ASYNC)
    run.job.redrawn.add((0, 3))
    again = rig(ASYNC)
    again.job.load_state_dict(json.loads(json.dumps(run.job.state_dict(), default=lambda array: array.tolist())))
    assert again.job.redrawn == {(0, 3)}

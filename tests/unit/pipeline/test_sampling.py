"""Dynamic sampling (public case d1): dropped groups are replaced while there are prompts, nothing accepted is lost."""

import logging
from itertools import chain

import pytest

from openrlhf.data.ledger import PromptState
from openrlhf.data.prompts import PromptSet
from openrlhf.pipeline.ppo_async import train as train_async
from openrlhf.pipeline.ppo_sync import train
from openrlhf.track.rollout_file import read_samples
from openrlhf.types import Prompt

FILTER = {"algo.dynamic_filtering_enable": True, "rollout.n_samples_per_prompt": 2, "train.batch_size": 2}


def mixed(prompt: Prompt, index: int) -> float:
    return float(index % 2)


def asked(run) -> list[list[int]]:
    """Prompt ids of each submission."""
    return [[request.prompt.prompt_id for request in batch] for batch in run.engines.requests]


def trained_rows(step) -> int:
    return sum(int(row >= 0) for own in step for batch in own for row in batch.rows)


@pytest.mark.parametrize("done_first", [0, -1])
def test_case_d1_what_is_accepted_is_trained_when_no_replacement_is_left(rig, done_first):
    """3 prompts, batch 3: the second is all right, so it is dropped, and the loader has nothing left."""
    order: list[int] = []

    def reward(prompt: Prompt, index: int) -> float:
        if prompt.prompt_id not in order:
            order.append(prompt.prompt_id)
        return 1.0 if order.index(prompt.prompt_id) == 1 else float(1 - index)  # [1,0], [1,1], [1,0]

    run = rig(FILTER | {"rollout.batch_size": 3, "train.batch_size": 6}, prompts=3, reward=reward)
    run.engines.done_first = done_first
    train(run.job)
    assert len(asked(run)) == 1  # nothing was cancelled, nothing drawn twice
    assert len(run.engines.finished) == 3
    assert [trained_rows(step) for step in run.policy.steps] == [4]
    assert run.job.ledger.state(0, order[1]) is PromptState.FILTERED
    assert run.job.ledger.counts()[PromptState.TRAINED] == 2
    assert run.job.ledger.unfinished() == []
    (row,) = run.rows()
    assert row["rollout/dynamic_filtering_pass_rate"] == 2 / 3
    assert row["rollout/num_samples"] == 4


def test_a_replacement_never_comes_from_the_next_episode(rig):
    """Both prompts are drawn at once and one is dropped: the episode is used up; the next one draws both anew."""
    run = rig(
        FILTER | {"train.num_episodes": 2, "train.batch_size": 4},
        prompts=2,
        reward=lambda prompt, index: float(prompt.prompt_id) * index,
    )
    train(run.job)
    assert [sorted(batch) for batch in asked(run)] == [[0, 1], [0, 1]]
    for episode in (0, 1):
        assert run.job.ledger.state(episode, 0) is PromptState.FILTERED
        assert run.job.ledger.state(episode, 1) is PromptState.TRAINED


def test_case_d1_all_rejected_is_no_step_a_plain_message_and_a_normal_end(rig, caplog):
    run = rig(FILTER | {"rollout.batch_size": 3, "train.batch_size": 6}, prompts=3, reward=lambda prompt, index: 1.0)
    with caplog.at_level(logging.WARNING):
        train(run.job)
    assert run.policy.steps == []
    assert run.job.version == 0
    assert "none of 3 prompts is left to train on" in caplog.text
    assert "mean score 1 is not inside (0, 1)" in caplog.text
    assert run.job.ledger.counts()[PromptState.FILTERED] == 3
    assert run.rows()[0]["rollout/dynamic_filtering_pass_rate"] == 0.0


def test_each_drop_draws_one_prompt_at_once(rig):
    """Prompts drawn first are dropped until four are: the batch of 2 is full again after four replacements."""
    seen: list[int] = []

    def reward(prompt: Prompt, index: int) -> float:
        if prompt.prompt_id not in seen:
            seen.append(prompt.prompt_id)
        return 0.0 if seen.index(prompt.prompt_id) < 4 else float(index)

    run = rig(FILTER | {"train.batch_size": 4}, prompts=20, reward=reward)
    run.job.config = run.job.config.model_copy(
        update={"train": run.job.config.train.model_copy(update={"max_steps": 1})}
    )
    object.__setattr__(run.job.length, "steps", 1)
    train(run.job)
    # 2 at first, and one for each of the four drops, each started while another group was still in flight.
    assert [len(batch) for batch in asked(run)] == [2, 1, 1, 1, 1]
    assert run.job.ledger.counts()[PromptState.TRAINED] == 2
    assert run.job.ledger.counts()[PromptState.FILTERED] == 4
    (row,) = run.rows()
    assert row["rollout/dynamic_filtering_pass_rate"] == 2 / 6
    assert row["rollout/num_samples"] == 4
    assert row["rollout/tokens_generated"] == 6 * 2 * 3  # what was dropped was generated too


@pytest.mark.parametrize("deterministic", [False, True])
def test_every_prompt_is_settled_once_per_episode(rig, deterministic):
    """Odd prompts are dropped. Two episodes of 7 prompts, batch 2."""
    changes = {"train.num_episodes": 2, "train.full_determinism_enable": deterministic, "train.batch_size": 4}
    run = rig(FILTER | changes, prompts=7, reward=lambda prompt, index: float(prompt.prompt_id % 2 == 0) * float(index))
    train(run.job)
    drawn = list(chain(*asked(run)))
    assert sorted(drawn) == sorted([*range(7)] * 2)
    for episode in (0, 1):
        states = [run.job.ledger.state(episode, prompt) for prompt in range(7)]
        assert states == [PromptState.FILTERED if prompt % 2 else PromptState.TRAINED for prompt in range(7)]
    # 4 prompts pass in each episode: batches of 2 and 2.
    assert [trained_rows(step) for step in run.policy.steps] == [4] * 4
    assert run.job.ledger.unfinished() == []


def test_with_full_determinism_replacements_start_in_rounds(rig):
    changes = {"train.full_determinism_enable": True, "rollout.batch_size": 4, "train.batch_size": 8}
    run = rig(FILTER | changes, prompts=12, reward=lambda prompt, index: float(prompt.prompt_id % 3 == 0) * index)
    train(run.job)
    assert set(run.log) <= {"generate paused", "train", *(entry for entry in run.log if str(entry).startswith("push"))}
    first_order = asked(run)
    again = rig(FILTER | changes, prompts=12, reward=lambda prompt, index: float(prompt.prompt_id % 3 == 0) * index)
    again.engines.done_first = 0  # another order of finishing
    train(again.job)
    assert asked(again) == first_order
    assert [request.seeds for batch in again.engines.requests for request in batch] == [
        request.seeds for batch in run.engines.requests for request in batch
    ]


@pytest.mark.parametrize("done_first", [0, -1])
def test_groups_are_in_the_order_of_their_draws_whoever_is_done_first(rig, tmp_path, done_first):
    run = rig(FILTER | {"rollout.batch_size": 4, "train.batch_size": 8}, prompts=4, reward=mixed)
    run.engines.done_first = done_first
    train(run.job)
    drawn = [request.group_id for request in run.engines.requests[0]]
    stored = read_samples(tmp_path / "run/rollouts/step_000001.jsonl.gz")
    assert [sample["group_id"] for sample in stored][:4] == drawn
    assert run.engines.finished == (drawn if done_first == 0 else drawn[::-1])


def test_a_sample_without_a_verdict_drops_its_group_and_its_prompt_failed(rig):
    run = rig(FILTER, prompts=2, reward=lambda prompt, index: None if prompt.prompt_id == 0 and index else float(index))
    train(run.job)
    assert run.job.ledger.state(0, 0) is PromptState.FAILED
    assert run.job.ledger.state(0, 1) is PromptState.TRAINED
    assert run.rows()[0]["rollout/ungraded_rate"] == 1 / 4


def test_the_last_evaluation_comes_where_the_episode_ends_early(rig):
    """Filtering makes runs shorter than planned; the evaluation after the last update is not lost with the steps."""
    changes = {"eval.at_start": True, "eval.dataset": "x", "eval.n_samples_per_prompt": 1, "train.batch_size": 4}
    seen: list[int] = []

    def reward(prompt: Prompt, index: int) -> float:  # the first two prompts are dropped, those after them stay
        if prompt.text != "held out" and prompt.prompt_id not in seen:
            seen.append(prompt.prompt_id)
        return float(prompt.prompt_id in seen[2:]) * index

    run = rig(FILTER | changes, prompts=4, reward=reward, eval_prompts=PromptSet([Prompt(0, "held out")]))
    train(run.job)
    assert (run.job.length.steps, run.job.step) == (2, 1)
    assert [row["step"] for row in run.rows() if "eval_default_pass1" in row] == [0, 1]


@pytest.mark.parametrize(("scores", "kept"), [((0.0, 0.0), False), ((0.5, 0.5), True), ((1.0, 1.0), False)])
def test_bounds_are_exclusive_and_scores_decide(rig, scores, kept):
    run = rig(FILTER | {"algo.advantage.estimator": "reinforce"}, prompts=1, reward=lambda prompt, index: scores[index])
    train(run.job)
    assert bool(run.policy.steps) is kept


def test_replacements_come_after_all_that_was_drawn_before_them(rig, tmp_path):
    """Of 3 prompts the first two to finish are dropped; their replacements are drawn one after the other."""
    dropped: list[int] = []

    def reward(prompt: Prompt, index: int) -> float:
        if len(dropped) < 2 and prompt.prompt_id not in dropped:
            dropped.append(prompt.prompt_id)
        return 1.0 if prompt.prompt_id in dropped else float(index)

    run = rig(FILTER | {"rollout.batch_size": 3, "train.batch_size": 6, "train.max_steps": 1}, prompts=5, reward=reward)
    run.engines.done_first = 0
    train(run.job)
    drawn = [request.group_id for batch in run.engines.requests for request in batch]
    assert len(drawn) == 5
    stored = read_samples(tmp_path / "run/rollouts/step_000001.jsonl.gz")
    assert list(dict.fromkeys(sample["group_id"] for sample in stored)) == drawn


@pytest.mark.parametrize(
    ("low", "bounds", "told"),
    [(-1.0, (0.0, 1.0), 1), (0.0, (0.0, 1.0), 0), (-1.0, (-1.0, 1.0), 0), (2.0, (0.0, 1.0), 1)],
)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_scores_of_another_range_than_the_default_are_named_once(rig, caplog, low, bounds, told, asynchronous):
    """Every group has the scores `low` and 1, several times over."""
    changes = FILTER | {"algo.dynamic_filtering_range": bounds, "train.async_enable": asynchronous}
    run = rig(changes, prompts=6, reward=lambda prompt, index: 1.0 if index % 2 else low)
    with caplog.at_level(logging.WARNING):
        (train_async if asynchronous else train)(run.job)
    said = [record.getMessage() for record in caplog.records if "--algo.dynamic_filtering_range" in record.getMessage()]
    assert len(said) == told
    assert all(f"has score {low:g}, but --algo.dynamic_filtering_range is 0 1" in line for line in said)


def test_equal_scores_inside_the_range_are_kept_and_counted(rig):
    # All of partial credit 0.5: 0 < 0.5 < 1.
    run = rig(FILTER, prompts=2, reward=lambda prompt, index: 0.5)
    train(run.job)
    (row,) = run.rows()
    assert (row["rollout/dynamic_filtering_pass_rate"], row["rollout/constant_group_rate"]) == (1.0, 1.0)

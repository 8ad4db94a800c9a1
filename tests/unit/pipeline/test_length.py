"""Steps and optimiser steps of a run, counted by hand."""

import time

import pytest

from openrlhf.config.rollout import RolloutConfig
from openrlhf.config.train import TrainConfig
from openrlhf.data.ledger import PromptLedger, PromptState
from openrlhf.data.loader import PromptLoader
from openrlhf.data.prompts import PromptSet
from openrlhf.pipeline.length import RunLength, resumed_steps, run_length
from openrlhf.types import Prompt


def length(num_prompts: int, *, prompts: int, samples: int, batch: int, **train: int | None) -> RunLength:
    rollout = RolloutConfig(batch_size=prompts, n_samples_per_prompt=samples)
    return run_length(num_prompts, rollout, TrainConfig(batch_size=batch, **train))


def test_full_steps_only():
    # 8 prompts, 4 per step: 2 steps of 4 * 2 = 8 samples, one optimiser step of 8 each.
    assert length(8, prompts=4, samples=2, batch=8) == RunLength(2, 2)


def test_the_short_last_step_takes_fewer_optimiser_steps():
    # 10 prompts, 4 per step: steps of 4, 4, 2. 4 * 3 = 12 samples -> ceil(12 / 5) = 3; 2 * 3 = 6 -> ceil(6 / 5) = 2.
    assert length(10, prompts=4, samples=3, batch=5) == RunLength(3, 3 + 3 + 2)


def test_fewer_prompts_than_a_step_holds():
    # One short step of 3 * 2 = 6 samples -> ceil(6 / 4) = 2.
    assert length(3, prompts=8, samples=2, batch=4) == RunLength(1, 2)


def test_epochs_and_episodes_multiply():
    # The episode above (3 steps, 8 optimiser steps), twice, with 3 epochs each.
    assert length(10, prompts=4, samples=3, batch=5, num_episodes=2, max_epochs=3) == RunLength(6, 8 * 2 * 3)


@pytest.mark.parametrize(
    ("max_steps", "optimiser_steps"),
    [
        (1, 3),
        (2, 3 + 3),  # cut before the short step
        (3, 8),  # the episode to its end
        (4, 8 + 3),
        (5, 8 + 3 + 3),  # inside the second episode, before its short step
        (6, 16),
        (7, 16),  # more than there are
    ],
)
def test_max_steps_cuts_inside_an_episode(max_steps, optimiser_steps):
    cut = length(10, prompts=4, samples=3, batch=5, num_episodes=2, max_steps=max_steps)
    assert cut == RunLength(min(max_steps, 6), optimiser_steps)


@pytest.mark.parametrize(
    ("max_steps", "expected"),
    [
        # 20 prompts, 4 per step: 5 full steps of 12 samples, 3 optimiser steps each; nothing is short.
        (None, RunLength(5, 15, 9)),
        (4, RunLength(4, 12, 9)),
        (2, RunLength(2, 6, 6)),
    ],
)
def test_an_asynchronous_run_fills_its_batches_over_the_ends_of_episodes(max_steps, expected):
    rollout = RolloutConfig(batch_size=4, n_samples_per_prompt=3)
    train = TrainConfig(batch_size=5, num_episodes=2, max_steps=max_steps, async_enable=True)
    assert run_length(10, rollout, train, frozen_steps=3) == expected


def test_of_an_asynchronous_run_only_the_very_last_step_is_short():
    # 30 prompts, 4 per step: 7 full steps (3 optimiser steps each) and one of 2 * 3 = 6 samples (2).
    assert length(10, prompts=4, samples=3, batch=5, num_episodes=3, async_enable=True) == RunLength(8, 7 * 3 + 2)


def test_a_hundred_million_episodes_are_counted_not_walked():
    start = time.perf_counter()
    assert length(10, prompts=4, samples=3, batch=5, num_episodes=10**8) == RunLength(3 * 10**8, 8 * 10**8)
    cut = length(10, prompts=4, samples=3, batch=5, num_episodes=10**8, max_steps=10**8)
    # 10^8 steps = 33333333 whole episodes and one step more.
    assert cut == RunLength(10**8, 33333333 * 8 + 3)
    assert time.perf_counter() - start < 10


def resumed(done: int, *, drawn: int, batch: int, unfinished: int = 0, **train: int | None) -> int:
    """Of 10 prompts, in the second episode with so many of it drawn, the last few of them not done with."""
    loader = PromptLoader(PromptSet([Prompt(i, "p") for i in range(10)]), batch, seed=1, num_episodes=9)
    ledger = PromptLedger(10)
    for count in (10, drawn):
        ids = [prompt.prompt_id for prompt in (loader.draw(count) if count else [])]
        ledger.draw(loader.episode, ids)
        ledger.move(loader.episode, ids, PromptState.IN_FLIGHT)
        ledger.move(loader.episode, ids[: len(ids) if count == 10 else count - unfinished], PromptState.FAILED)
    return resumed_steps(done, loader, ledger, RolloutConfig(batch_size=batch), TrainConfig(**train))


@pytest.mark.parametrize(("done", "drawn"), [(3, 0), (4, 4), (5, 8), (6, 10)])
def test_unchanged_flags_leave_the_steps_as_they_were(done, drawn):
    # Two episodes of 4, 4, 2 prompts are 6 steps.
    assert resumed(done, drawn=drawn, batch=4, num_episodes=2) == 6
    assert resumed(done, drawn=drawn, batch=4, num_episodes=2, max_steps=5) == 5
    # And four more episodes 12 more.
    assert resumed(done, drawn=drawn, batch=4, num_episodes=6) == 18


def test_what_is_left_is_counted_in_batches_of_today():
    # 6 prompts of the second episode, 10 of the third: ceil(6 / 8) + ceil(10 / 8).
    assert resumed(4, drawn=4, batch=8, num_episodes=3) == 4 + 1 + 2
    # With 3 that are in flight there are 9 beside the third episode: ceil(9 / 8).
    assert resumed(4, drawn=4, batch=8, unfinished=3, num_episodes=3) == 4 + 2 + 2


def test_what_is_left_of_an_asynchronous_run_is_one_row_of_batches():
    # 6 prompts of the second episode, 3 that are in flight, and the 20 of two more: ceil(29 / 4).
    assert resumed(4, drawn=4, batch=4, unfinished=3, num_episodes=4, async_enable=True) == 4 + 8


def test_fewer_episodes_than_were_begun_are_over():
    assert resumed(4, drawn=4, batch=4, unfinished=2, num_episodes=1) == 4

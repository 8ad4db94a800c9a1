"""An engine that was replaced gets the policy's weights as soon as the policy is at rest."""

import threading
import time

import pytest

from openrlhf.data.ledger import PromptState
from openrlhf.pipeline import ppo_async, ppo_sync
from openrlhf.pipeline.weights import revive
from openrlhf.types import Prompt


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"train.full_determinism_enable": True},
        {"algo.dynamic_filtering_enable": True, "algo.dynamic_filtering_range": (0.0, 1.0)},
    ],
)
def test_sync_pushes_to_the_replaced_engine_in_the_middle_of_a_rollout(rig, changes):
    def reward(prompt: Prompt, index: int) -> float:
        if run.job.step == 1 and index == 0 and len(run.engines.flight) == 1:
            run.engines.stale = True  # found out while the first group of the second step came back
        return float(index % 2)

    run = rig(changes, reward=reward)
    ppo_sync.train(run.job)
    first = run.log.index("push 1 by shm")
    assert run.log[first + 1 :][1] == "push 1 by shm to the stale"  # after `generate`, before `train`
    assert run.log.count("push 1 by shm to the stale") == 1
    assert run.job.ledger.counts()[PromptState.TRAINED] == 4
    assert run.job.version == 2


def test_on_a_shared_gpu_a_replaced_engine_waits_until_none_generates(rig):
    """Beside engines with their caches the policy has no room."""
    run = rig({"vllm.enable_sleep": True, "ds.enable_sleep": True})
    run.engines.stale, run.engines.generating = True, True
    revive(run.job)
    assert run.log == []
    run.engines.generating = False
    revive(run.job)
    assert run.log == [
        *["sleep", ("wake", ("weights",)), "policy wakes", "push 0 by shm to the stale", "policy sleeps"],
        ("wake", None),
    ]


def test_async_pushes_while_it_waits_for_groups_and_never_while_it_trains(rig):
    """The only engine is replaced: its groups come back only once it has weights."""
    run = rig({"train.async_enable": True}, prompts=6)
    training = threading.Event()
    whole_step, whole_next = run.policy.train_step, run.engines.next_group

    def train_step(batches, kl_coef):
        training.set()
        run.engines.stale = True
        time.sleep(0.05)
        assert run.engines.stale  # nobody pushes weights that are moving
        training.clear()
        return whole_step(batches, kl_coef)

    def next_group(within=None):
        if run.engines.stale:
            time.sleep(0.001)
            return None
        return whole_next(within)

    run.policy.train_step, run.engines.next_group = train_step, next_group
    ppo_async.train(run.job)
    assert run.job.ledger.counts()[PromptState.TRAINED] == 6
    assert [entry for entry in run.log if str(entry).startswith("push")] == [f"push {v} by shm" for v in (1, 2, 3)]


def test_async_brings_a_lone_engine_back_between_two_steps(rig):
    run = rig({"train.async_enable": True}, prompts=4)
    whole = run.engines.next_group

    def next_group(within=None):
        if not run.engines.finished and not run.engines.stale and "push 0 by shm to the stale" not in run.log:
            run.engines.stale = True
        if run.engines.stale:
            time.sleep(0.001)
            return None
        return whole(within)

    run.engines.next_group = next_group
    ppo_async.train(run.job)
    assert run.log.count("push 0 by shm to the stale") == 1
    assert run.job.ledger.counts()[PromptState.TRAINED] == 4

"""--reward.abort_after: a reward source that has stopped judging ends the run, with a checkpoint."""

import pytest

from openrlhf.pipeline import ppo_async, ppo_sync
from openrlhf.pipeline.checkpoint import resume
from openrlhf.pipeline.checkpoint_store import CheckpointStore
from openrlhf.rl.filtering import UngradedAbort
from openrlhf.types import Prompt

TRAINERS = {"sync": ({}, ppo_sync.train), "async": ({"train.async_enable": True}, ppo_async.train)}


@pytest.mark.parametrize("trainer", TRAINERS)
def test_so_many_in_a_row_and_no_fewer(rig, trainer):
    """Prompts of 4 samples: graded 0, 1, 2, then 7 ungraded, then all graded; the limit is 8, then 7."""
    changes, train = TRAINERS[trainer]

    def reward_of(limit: int):
        seen: list[tuple[int, int]] = []

        def reward(prompt: Prompt, index: int) -> float | None:
            seen.append((prompt.prompt_id, index))
            return None if 3 < len(seen) <= 10 else float(index % 2)

        return rig(changes | {"reward.abort_after": limit}, prompts=6, reward=reward)

    train(reward_of(8).job)
    with pytest.raises(UngradedAbort, match=r"7 samples in a row got no verdict \(--reward.abort_after 7\), .*verdict"):
        train(reward_of(7).job)


@pytest.mark.parametrize("trainer", TRAINERS)
def test_the_run_ends_with_a_checkpoint_that_loses_no_prompt(rig, trainer, tmp_path, caplog):
    changes, train = TRAINERS[trainer]
    changes = changes | {"reward.abort_after": 4, "ckpt.path": str(tmp_path / "saves"), "ckpt.save_steps": 100}
    run = rig(changes, prompts=12, reward=lambda prompt, i: float(i % 2) if run.job.step < 2 else "the grader is down")
    with pytest.raises(UngradedAbort, match="the grader is down"):
        train(run.job)
    store = CheckpointStore(tmp_path / "saves", 9, float("inf"))
    saved = store.latest()
    assert saved is not None
    assert f"--ckpt.load_enable goes on after step {saved.step}, from {saved.folder}" in caplog.text
    run.job.tracker.close()

    resumed = rig(changes, prompts=12)
    waiting = resume(resumed.job)
    train(resumed.job, waiting) if trainer == "async" else train(resumed.job)
    counts = resumed.job.ledger.counts()
    assert sum(counts.values()) == 12
    assert resumed.job.ledger.unfinished() == []
    assert resumed.job.step == 6


def test_scores_of_reward_models_count_once_they_are_there(rig):
    changes = {"reward.model_name_or_path": "m", "reward.abort_after": 8}
    run = rig(changes, reward=lambda prompt, index: "waiting for the reward model")
    ppo_sync.train(run.job)  # the models score them: nothing is missing
    broken = rig(changes, reward=lambda prompt, index: "waiting for the reward model")
    broken.job.cluster.reward.score_of = lambda tokens: float("nan")
    with pytest.raises(UngradedAbort, match="8 samples in a row"):
        ppo_sync.train(broken.job)

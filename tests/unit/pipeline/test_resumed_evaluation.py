"""A run that is interrupted around an evaluation has it, once, when it goes on."""

import pytest

from openrlhf.data.prompts import PromptSet
from openrlhf.pipeline import evaluate, ppo_async, ppo_sync
from openrlhf.pipeline.checkpoint import resume
from openrlhf.pipeline.checkpoint_store import CheckpointStore
from openrlhf.track.metrics_file import read_rows
from openrlhf.types import Prompt


@pytest.fixture
def run_of(rig, tmp_path):
    """run_of(pipeline, changes): 8 prompts, 2 per step: steps 1 to 4, all saved, evaluated after 2 and 4."""

    def make(pipeline, changes=None, source="held"):
        saved = {"ckpt.path": str(tmp_path / "saves"), "ckpt.save_steps": 1, "ckpt.max_num": 9}
        once = {"eval.steps": 2, "eval.n_samples_per_prompt": 1}  # of which pass1 is all that there is
        chosen = saved | once | {"train.async_enable": pipeline is ppo_async} | (changes or {})
        return rig(chosen, prompts=8, eval_prompts=PromptSet([Prompt(0, "held", "x", datasource=source)]))

    return make


def go_on(run, pipeline):
    waiting = resume(run.job)
    pipeline.train(run.job, *([waiting] if pipeline is ppo_async else []))
    run.job.tracker.close()


def rated(tmp_path) -> list[tuple[int, float | None]]:
    found = CheckpointStore(tmp_path / "saves", 9, float("inf")).all()
    return [(one.step, one.metric and one.metric.value) for one in found]


def scored(monkeypatch, scores: dict[int, float], broken: tuple[int, ...] = ()) -> list[int]:
    """An evaluation of a step gives its score, the first of a broken one is interrupted; the steps that were asked."""
    asked: list[int] = []

    def stand_in(job, sample):
        asked.append(job.step)
        if job.step in broken and asked.count(job.step) == 1:
            raise KeyboardInterrupt
        return {"eval_held_pass1": scores[job.step]}

    monkeypatch.setattr(evaluate, "evaluate", stand_in)
    return asked


@pytest.mark.parametrize("pipeline", [ppo_sync, ppo_async])
def test_an_interrupted_evaluation_is_made_after_the_resume_and_rates_its_checkpoint(
    run_of, tmp_path, monkeypatch, pipeline
):
    asked = scored(monkeypatch, {2: 0.75, 4: 0.25}, broken=(2,))
    cut = run_of(pipeline)
    with pytest.raises(KeyboardInterrupt):
        pipeline.train(cut.job)
    cut.job.tracker.close()
    assert rated(tmp_path) == [(1, None), (2, None)]
    go_on(run_of(pipeline), pipeline)
    # Broken, again before step 3, and after step 4. The better score is that of step 2: without its evaluation `best`
    # would be step 4.
    assert asked == [2, 2, 4]
    assert rated(tmp_path) == [(1, None), (2, 0.75), (3, None), (4, 0.25)]
    assert (tmp_path / "saves" / "best").resolve().name == "global_step2"


@pytest.mark.parametrize("max_steps", [2, 3])
def test_an_evaluation_on_record_is_not_made_again(run_of, tmp_path, monkeypatch, max_steps):
    """Stopped after step 2 (due) or 3 (the last of that run), then resumed with nothing left to do, then to the end."""
    asked = scored(monkeypatch, {2: 0.75, 3: 0.5, 4: 0.25})
    first = run_of(ppo_sync, {"train.max_steps": max_steps})
    ppo_sync.train(first.job)
    first.job.tracker.close()
    made = list(range(2, max_steps + 1))
    assert asked == made
    go_on(run_of(ppo_sync, {"train.max_steps": max_steps}), ppo_sync)
    assert asked == made
    go_on(run_of(ppo_sync), ppo_sync)
    assert asked == [*made, 4]


@pytest.mark.parametrize(
    ("changes", "source", "found"),
    [
        ({}, "other", {"eval_other_pass1": 0.25}),
        ({"eval.n_samples_per_prompt": 3}, "held", {"eval_held_pass1": 0.25, "eval_held_pass3": 0.5}),
    ],
)
def test_an_evaluation_on_record_of_another_set_is_not_the_one_of_a_resume(
    run_of, tmp_path, monkeypatch, changes, source, found
):
    """Stopped after step 2 with 0.75 for `held`; what is evaluated then has other names in metrics.jsonl."""
    asked = scored(monkeypatch, {2: 0.75})
    first = run_of(ppo_sync, {"train.max_steps": 2})
    ppo_sync.train(first.job)
    first.job.tracker.close()
    monkeypatch.setattr(evaluate, "evaluate", lambda job, sample: asked.append(job.step) or dict(found))
    for _ in range(2):  # the second resume has the new evaluation on record
        go_on(run_of(ppo_sync, {"train.max_steps": 2} | changes, source), ppo_sync)
        assert asked == [2, 2]
        assert rated(tmp_path) == [(1, None), (2, 0.25)]
    row = read_rows(next(tmp_path.rglob("metrics.jsonl")))[-1]
    assert {name: row[name] for name in ("eval_held_pass1", *found)} == {"eval_held_pass1": 0.75} | found


def test_an_evaluation_whose_rating_was_cut_off_rates_after_the_resume(run_of, tmp_path, monkeypatch):
    """SIGTERM between the row of step 2 and its checkpoint, which is then saved without a rating."""
    asked = scored(monkeypatch, {2: 0.75, 4: 0.25})
    cut = run_of(ppo_sync)
    whole = cut.job.tracker.log

    def terminated(step, metrics):
        whole(step, metrics)
        if "eval_held_pass1" in metrics:
            raise KeyboardInterrupt

    cut.job.tracker.log = terminated
    with pytest.raises(KeyboardInterrupt):
        ppo_sync.train(cut.job)
    cut.job.tracker.close()
    assert rated(tmp_path) == [(1, None), (2, None)]
    go_on(run_of(ppo_sync), ppo_sync)
    assert asked == [2, 4]
    assert rated(tmp_path) == [(1, None), (2, 0.75), (3, None), (4, 0.25)]


def test_the_evaluation_at_a_resume_leaves_the_samples_of_training_as_they_are(run_of, monkeypatch):
    """Same prompts, group ids and seeds as an uncut run; the evaluation has draws below 0 of its own."""
    exact = {"train.full_determinism_enable": True}
    uncut = run_of(ppo_sync, exact | {"ckpt.save_steps": -1})
    ppo_sync.train(uncut.job)
    uncut.job.tracker.close()
    cut, whole = run_of(ppo_sync, exact), evaluate.evaluate

    def interrupted(job, sample):
        raise KeyboardInterrupt

    monkeypatch.setattr(evaluate, "evaluate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ppo_sync.train(cut.job)
    cut.job.tracker.close()
    monkeypatch.setattr(evaluate, "evaluate", whole)
    resumed = run_of(ppo_sync, exact)
    go_on(resumed, ppo_sync)

    def asked(run):
        return [(one.group_id, one.seeds) for step in run.engines.requests for one in step]

    # Of the uncut run: steps 1 and 2, evaluation "-3:0", steps 3 and 4, evaluation "-5:0".
    assert asked(cut) + asked(resumed) == asked(uncut)
    assert [group for group, _ in asked(resumed) if group.startswith("-")] == ["-3:0", "-5:0"]

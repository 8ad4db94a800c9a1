"""When a run is saved, and that a saved run goes on as if it had never stopped."""

import json
import signal

import pytest

from openrlhf.cluster.errors import PeerDied
from openrlhf.data.errors import DataError
from openrlhf.data.ledger import PromptState
from openrlhf.pipeline import evaluate, ppo_async, ppo_sync, stages, weights
from openrlhf.pipeline.checkpoint import begin, resume
from openrlhf.pipeline.checkpoint_store import CheckpointError, CheckpointStore
from openrlhf.pipeline.ppo_sync import train


@pytest.fixture
def store(tmp_path) -> CheckpointStore:
    return CheckpointStore(tmp_path / "saves", 9, float("inf"))


@pytest.fixture
def saving_rig(rig, tmp_path):
    """saving_rig(changes, ...): a job that saves into `store` every second step."""

    def make(changes=None, **more):
        return rig({"ckpt.path": str(tmp_path / "saves"), "ckpt.save_steps": 2} | (changes or {}), **more)

    return make


def steps(store: CheckpointStore) -> list[int]:
    return [found.step for found in store.all()]


def values(store: CheckpointStore) -> list[tuple[int, float | None]]:
    return [(found.step, found.metric and found.metric.value) for found in store.all()]


def asked(run) -> list[tuple[str, int]]:
    return [(request.group_id, request.prompt.prompt_id) for step in run.engines.requests for request in step]


def test_no_checkpoint_unless_asked_for(rig, store, tmp_path):
    train(rig({"ckpt.path": str(tmp_path / "saves")}).job)
    assert not store.root.exists()


def test_every_second_step_is_saved(saving_rig, store):
    train(saving_rig(prompts=10).job)  # 5 steps of 2 prompts
    assert steps(store) == [2, 4]


def test_a_resumed_run_does_what_an_uncut_one_does(saving_rig, store):
    uncut = saving_rig({"ckpt.save_steps": -1}, prompts=10)
    train(uncut.job)
    cut = saving_rig({"train.max_steps": 2}, prompts=10)
    train(cut.job)
    cut.job.tracker.close()
    resumed = saving_rig(prompts=10)
    assert resume(resumed.job) == []
    assert "policy goes on after 2 training steps" in resumed.log
    train(resumed.job)
    assert asked(cut) + asked(resumed) == asked(uncut)
    assert resumed.job.ledger.counts() == uncut.job.ledger.counts()
    assert [row["step"] for row in resumed.rows()] == [1, 2, 3, 4, 5]


def test_without_a_checkpoint_it_starts_from_the_beginning_and_says_so(saving_rig, caplog):
    run = saving_rig()
    assert resume(run.job) is None
    assert "starts from the beginning" in caplog.text


def test_another_run_s_checkpoint_is_refused_by_flag(saving_rig):
    train(saving_rig({"ds.zero_stage": 2}).job)
    other = saving_rig({"ds.zero_stage": 3})
    with pytest.raises(CheckpointError, match=r"--ds.zero_stage 3 \(it was 2\)"):
        resume(other.job)


def test_an_interrupted_run_saves_its_last_finished_step(saving_rig, store, monkeypatch):
    run = saving_rig({"ckpt.save_steps": 100}, prompts=10)
    whole = stages.roll_out

    def interrupted(job, prompts, report):
        if job.step == 3:
            raise KeyboardInterrupt
        return whole(job, prompts, report)

    monkeypatch.setattr(stages, "roll_out", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(run.job)
    assert steps(store) == [3]
    state = json.loads((store.latest().folder / "job.json").read_text())
    # The prompts of the fourth step were drawn already; in the saved books they are not.
    assert state["loader"]["position"] == 6
    assert state["ledger"]["open"] == []


def test_a_run_interrupted_while_weights_move_saves_nothing_new(saving_rig, store, monkeypatch):
    run = saving_rig({"ckpt.save_steps": 100}, prompts=10)

    def interrupted(job, experience, report):
        raise KeyboardInterrupt

    monkeypatch.setattr(stages, "update", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(run.job)
    assert steps(store) == []


@pytest.fixture
def terminating():
    """SIGTERM interrupts, as the command has it."""

    def unwind(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, unwind)
    yield
    signal.signal(signal.SIGTERM, before)


def test_a_termination_waits_for_the_end_of_the_update(saving_rig, store, monkeypatch, terminating):
    run = saving_rig({"ckpt.save_steps": 100}, prompts=10)
    whole, trained = stages.update, []

    def terminated(job, experience, report):
        signal.raise_signal(signal.SIGTERM)
        whole(job, experience, report)
        trained.append(job.step)

    monkeypatch.setattr(stages, "update", terminated)
    with pytest.raises(KeyboardInterrupt):
        train(run.job)
    assert trained == [0]
    assert steps(store) == [1]


@pytest.mark.parametrize("pipeline", [ppo_sync, ppo_async])
@pytest.mark.parametrize("cause", ["push", "row"])
def test_a_step_is_done_when_its_weights_are_whatever_comes_after(saving_rig, store, monkeypatch, pipeline, cause):
    """The push of the third step fails, or its row cannot be written: it is saved, and not trained again."""
    changes = {"ckpt.save_steps": 100, "train.async_enable": pipeline is ppo_async}
    run = saving_rig(changes, prompts=10)
    if cause == "push":
        monkeypatch.setattr(weights, "push_weights", failing_in_step(run, 4, weights.push_weights))
    else:
        run.job.tracker.log = failing_in_step(run, 4, run.job.tracker.log)
    with pytest.raises(ZeroDivisionError):
        pipeline.train(run.job)
    run.job.tracker.close()
    assert steps(store) == [3]
    resumed = saving_rig(changes, prompts=10)
    waiting = resume(resumed.job)
    pipeline.train(resumed.job, *([waiting] if pipeline is ppo_async else []))
    assert (resumed.job.step, resumed.job.version) == (5, 5)
    assert resumed.job.ledger.counts()[PromptState.TRAINED] == 10
    assert len(run.policy.steps) + len(resumed.policy.steps) == 5
    written = [1, 2, 3, 4, 5] if cause == "push" else [1, 2, 4, 5]  # what the disk refused is nowhere
    assert [row["step"] for row in resumed.rows()] == written


def test_a_termination_waits_for_the_end_of_a_save(saving_rig, store, terminating):
    run = saving_rig(prompts=10)
    whole, saved = run.policy.save_state, []

    def terminated(folder):
        saved.append(folder.name)
        signal.raise_signal(signal.SIGTERM)
        whole(folder)

    run.policy.save_state = terminated
    with pytest.raises(KeyboardInterrupt):
        train(run.job)
    assert steps(store) == [2]
    assert len(saved) == 1


def test_a_termination_waits_for_a_rating_too(saving_rig, store, monkeypatch, terminating):
    scores = iter([{"eval_default_pass1": 0.5}])
    monkeypatch.setattr(evaluate, "evaluate", lambda job, sample: next(scores))
    run = saving_rig({"ckpt.save_steps": 1, "eval.steps": 9, "train.max_steps": 1}, prompts=10)
    whole = CheckpointStore.rate

    def terminated(*arguments):
        signal.raise_signal(signal.SIGTERM)
        whole(*arguments)

    monkeypatch.setattr(CheckpointStore, "rate", terminated)
    with pytest.raises(KeyboardInterrupt):
        train(run.job)
    assert values(store) == [(1, 0.5)]


def test_who_ignores_further_signals_goes_on_to_ignore_them(saving_rig, store, monkeypatch, terminating):
    """Ctrl-C in an update: the command unwinds, and a second signal must not disturb its last save."""
    run = saving_rig(prompts=10)

    def interrupted(job, experience, report):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        raise KeyboardInterrupt

    monkeypatch.setattr(stages, "update", interrupted)
    with pytest.raises(KeyboardInterrupt):
        train(run.job)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN


def test_on_a_shared_gpu_the_engines_leave_before_the_last_save(saving_rig, store):
    """The run breaks while they generate: nothing has put them to sleep."""
    sleeping = {"ds.enable_sleep": True, "vllm.enable_sleep": True, "algo.advantage.estimator": "gae"}
    run = saving_rig(sleeping | {"ckpt.save_steps": 100}, prompts=10)
    run.critic.save_state = lambda folder: run.log.append("critic is saved")
    run.engines.next_group = failing_in_step(run, 4, run.engines.next_group)
    with pytest.raises(ZeroDivisionError):
        train(run.job)
    assert steps(store) == [3]
    last = len(run.log) - run.log[::-1].index("generate")
    assert run.log[last:] == [
        *["engines end", "policy sleeps", "critic sleeps"],
        *["policy wakes", "policy sleeps", "critic wakes", "critic is saved", "critic sleeps"],
    ]


def test_the_best_evaluation_is_kept_with_its_own_weights(saving_rig, store, monkeypatch):
    scores = iter([0.5, 0.9, 0.7, 0.6, 0.8])
    monkeypatch.setattr(evaluate, "evaluate", lambda job, sample: {"eval_default_pass1": next(scores)})
    train(saving_rig({"ckpt.save_steps": 5, "ckpt.max_num": 1, "eval.steps": 1}, prompts=10).job)
    # Saved at 1 (the first is the best so far), 2 (better) and 5 (due); one may stay, but best and newest always do.
    assert values(store) == [(2, 0.9), (5, 0.8)]
    assert (store.best().folder / "actor" / "steps").read_text() == "2"


def test_another_metric_than_before_has_a_best_of_its_own(saving_rig, store, monkeypatch):
    """As when a run is resumed with other evaluation prompts."""
    scores = iter([{"eval_a_pass1": 0.9}, {"eval_b_pass1": 0.1}, {"eval_b_pass1": 0.05}])
    monkeypatch.setattr(evaluate, "evaluate", lambda job, sample: next(scores))
    train(saving_rig({"ckpt.save_steps": 5, "eval.steps": 1}, prompts=6).job)
    assert values(store) == [(1, 0.9), (2, 0.1)]
    assert store.best().step == 2


def test_a_disk_that_is_full_costs_the_checkpoint_and_not_the_run(saving_rig, store, caplog):
    run = saving_rig(prompts=10)
    whole = run.policy.save_state

    def full(folder):
        if run.job.step == 4:
            raise OSError(28, "No space left on device")
        whole(folder)

    run.policy.save_state = full
    train(run.job)
    assert run.job.step == 5
    assert steps(store) == [2]
    assert "No space left on device; the checkpoint of step 2 is kept" in caplog.text


def test_an_export_beside_without_trainer_states_cannot_be_resumed(saving_rig, store):
    changes = {"ckpt.disable_ds": True, "ckpt.save_hf": True}
    run = saving_rig(changes)
    train(run.job)
    assert ("save", store.root / ".writing_global_step2" / "hf") in run.log
    again = saving_rig(changes)
    with pytest.raises(CheckpointError, match=r"--ckpt\.disable_ds"):
        resume(again.job)


def test_a_run_that_breaks_saves_its_last_finished_step(saving_rig, store, monkeypatch, caplog):
    run = saving_rig({"ckpt.save_steps": 100}, prompts=10)
    monkeypatch.setattr(stages, "keep", failing_in_step(run, 4, stages.keep))
    with pytest.raises(ZeroDivisionError):
        train(run.job)
    assert steps(store) == [3]
    assert f"--ckpt.load_enable goes on after step 3, from {store.root / 'global_step3'}" in caplog.text


def test_trainers_that_do_not_answer_are_not_asked_to_save(saving_rig, store, monkeypatch, caplog):
    run = saving_rig(prompts=10)
    monkeypatch.setattr(stages, "keep", failing_in_step(run, 4, stages.keep))

    def dead(seconds):
        raise PeerDied("policy rank 1", "answer", "The actor died")

    run.policy.check = dead
    with pytest.raises(ZeroDivisionError):
        train(run.job)
    assert steps(store) == [2]
    assert "the last finished step cannot be saved: policy rank 1 died" in caplog.text
    assert "goes on after step 2" in caplog.text


def test_a_run_that_breaks_while_weights_move_names_its_last_checkpoint(saving_rig, store, monkeypatch, caplog):
    run = saving_rig(prompts=10)
    monkeypatch.setattr(stages, "update", failing_in_step(run, 4, stages.update))
    with pytest.raises(ZeroDivisionError):
        train(run.job)
    assert steps(store) == [2]
    assert "goes on after step 2" in caplog.text


@pytest.mark.parametrize("fault", [ValueError("not among those that are known"), OSError(28, "No space left")])
def test_what_goes_wrong_with_the_last_save_does_not_hide_what_the_run_broke_of(
    saving_rig, store, monkeypatch, caplog, fault
):
    run = saving_rig({"ckpt.save_hf": True}, prompts=10)
    monkeypatch.setattr(stages, "keep", failing_in_step(run, 4, stages.keep))

    def refuses(folder):
        if run.job.step == 3:
            raise fault

    run.policy.save_hf = refuses
    with pytest.raises(ZeroDivisionError):
        train(run.job)
    assert steps(store) == [2]
    assert "the last finished step cannot be saved" in caplog.text
    assert str(fault) in caplog.text
    assert f"--ckpt.load_enable goes on after step 2, from {store.root / 'global_step2'}" in caplog.text


def test_an_interrupted_run_that_cannot_save_is_still_an_interrupted_one(saving_rig, store, monkeypatch, caplog):
    run = saving_rig(prompts=10)
    whole = stages.keep

    def interrupted(job, groups, report):
        if job.step == 3:
            raise KeyboardInterrupt
        return whole(job, groups, report)

    def dead(folder):
        raise PeerDied("policy rank 1", "save", "The actor died")

    def busy_or_dead(seconds):
        raise AssertionError("trainers that finish a long pass are waited for")

    monkeypatch.setattr(stages, "keep", interrupted)
    run.policy.check = busy_or_dead
    saved = run.policy.save_state
    run.policy.save_state = lambda folder: dead(folder) if run.job.step == 3 else saved(folder)
    with pytest.raises(KeyboardInterrupt):
        train(run.job)
    assert "cannot be saved: policy rank 1 died" in caplog.text
    assert "goes on after step 2" in caplog.text


def test_checkpoints_that_cannot_be_listed_hide_nothing_either(saving_rig, store, monkeypatch, caplog):
    run = saving_rig(prompts=10)
    whole = stages.keep

    def failing(job, groups, report):
        if job.step == 3:
            (store.root / "global_step2" / "checkpoint.json").write_text("")
            raise ZeroDivisionError
        return whole(job, groups, report)

    monkeypatch.setattr(stages, "keep", failing)
    with pytest.raises(ZeroDivisionError):
        train(run.job)
    assert "global_step2/checkpoint.json: not the description of a checkpoint" in caplog.text


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("groups.pkl", b""),
        ("groups.pkl", b"\x80\x05]"),
        ("job.json", b""),
        ("job.json", b"{}"),
        ("job.json", b"[]"),
        ("job.json", b'{"step": 2, "version": 2, "draws": 0, "redrawn": [], "loader": null}'),
        ("actor/steps", b"\xff"),
    ],
)
def test_a_damaged_checkpoint_is_named_in_one_line(saving_rig, store, file, content):
    train(saving_rig({"train.max_steps": 2}, prompts=10).job)
    (store.root / "global_step2" / file).write_bytes(content)
    with pytest.raises(CheckpointError, match=r"the checkpoint of step 2 in .*saves cannot be loaded: .+; without its"):
        resume(saving_rig(prompts=10).job)


@pytest.mark.parametrize(
    ("batch", "max_steps", "sizes"),
    [
        (4, None, [4, 4]),  # 8 of 12 prompts are left
        (3, None, [3, 3, 2]),
        (1, None, [1] * 8),
        (2, None, [2, 2, 2, 2]),  # as before
        (4, 3, [4]),
    ],
)
def test_a_resumed_run_takes_all_that_is_left_whatever_the_batch(saving_rig, batch, max_steps, sizes):
    """12 prompts, 2 steps of 2 before the stop."""
    cut = saving_rig({"train.max_steps": 2}, prompts=12)
    train(cut.job)
    cut.job.tracker.close()
    resumed = saving_rig({"rollout.batch_size": batch, "train.max_steps": max_steps}, prompts=12)
    schedule = resumed.job.length.optimiser_steps
    resume(resumed.job)
    assert resumed.job.length.steps == 2 + len(sizes)
    assert resumed.job.length.optimiser_steps == schedule  # what the learning rate was built from
    train(resumed.job)
    assert [len(step) for step in resumed.engines.requests] == sizes
    assert resumed.job.step == 2 + len(sizes)


def test_a_due_checkpoint_without_its_metric_is_saved_unrated(saving_rig, store, monkeypatch, caplog):
    """No sample of the source had a verdict in step 2; the evaluation of step 3 is no best without one before it."""
    scores = iter([{"eval_a_pass1": 0.5}, {"eval_num_samples": 4.0}, {"eval_a_pass1": 0.25}])
    monkeypatch.setattr(evaluate, "evaluate", lambda job, sample: next(scores))
    train(saving_rig({"ckpt.best_metric_key": "eval_a_pass1", "eval.steps": 1}, prompts=6).job)
    assert values(store) == [(1, 0.5), (2, None)]
    assert "--ckpt.best_metric_key eval_a_pass1: this evaluation gives only eval_num_samples" in caplog.text


def test_without_checkpoints_a_run_that_breaks_says_nothing_of_them(rig, monkeypatch, caplog):
    run = rig()
    monkeypatch.setattr(stages, "keep", failing_in_step(run, 2, stages.keep))
    with pytest.raises(ZeroDivisionError):
        train(run.job)
    assert "ckpt" not in caplog.text


def failing_in_step(run, number, whole):
    def stage(*arguments, **more):
        if run.job.step == number - 1:
            raise ZeroDivisionError
        return whole(*arguments, **more)

    return stage


def test_the_last_evaluation_rates_the_checkpoint_that_is_there(saving_rig, store, monkeypatch):
    """5 steps, evaluated after every second and after the last; all are saved."""
    scores = iter([0.5, 0.4, 0.9])
    monkeypatch.setattr(evaluate, "evaluate", lambda job, sample: {"eval_default_pass1": next(scores)})
    run = saving_rig({"ckpt.save_steps": 1, "ckpt.max_num": 9, "eval.steps": 2}, prompts=10)
    train(run.job)
    assert values(store) == [(1, None), (2, 0.5), (3, None), (4, 0.4), (5, 0.9)]
    assert store.best().step == 5
    assert (store.root / "best").resolve().name == "global_step5"
    assert [row["step"] for row in run.rows() if "eval_default_pass1" in row] == [2, 4, 5]


def test_another_run_s_checkpoints_do_not_pass_for_this_one_s(saving_rig, store):
    train(saving_rig(prompts=10).job)
    again = saving_rig({"ckpt.overwrite": True}, prompts=10)
    assert begin(again.job) is None
    assert steps(store) == []
    train(again.job)
    assert steps(store) == [2, 4]


@pytest.mark.parametrize("workers", [0, 4])
def test_case_e1_a_resumed_run_with_an_export_beside_takes_the_prompts_that_were_next(saving_rig, store, workers):
    """8 prompts, 2 per step, saved every second step with the Hugging Face export; 4 steps, and 2 + 2."""
    changes = {"train.seed": 42, "ckpt.save_hf": True, "data.dataloader_num_workers": workers, "train.num_episodes": 2}
    uncut = saving_rig(changes | {"ckpt.save_steps": -1, "train.max_steps": 4}, prompts=8)
    train(uncut.job)
    cut = saving_rig(changes | {"train.max_steps": 2}, prompts=8)
    train(cut.job)
    cut.job.tracker.close()
    resumed = saving_rig(changes | {"train.max_steps": 4}, prompts=8)
    resume(resumed.job)
    assert resumed.job.step == 2
    train(resumed.job)
    assert asked(resumed) == asked(uncut)[4:]
    assert sorted(prompt for _, prompt in asked(cut) + asked(resumed)) == list(range(8))
    assert resumed.job.loader.episode == uncut.job.loader.episode == 0
    assert ("save", store.root / ".writing_global_step2" / "hf") in cut.log


def test_case_e1_another_dataset_is_refused_and_named(saving_rig):
    train(saving_rig({"train.max_steps": 2, "ckpt.save_hf": True}, prompts=8).job)
    with pytest.raises(DataError, match=r"not the one of the checkpoint \(3 prompts now, 8 then\)"):
        resume(saving_rig({"ckpt.save_hf": True}, prompts=3).job)

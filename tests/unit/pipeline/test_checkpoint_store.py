"""Checkpoints on disk: whole or absent, rotated without losing the newest or the best."""

import os
import shutil
from pathlib import Path

import pytest

from openrlhf.pipeline.checkpoint_store import CheckpointError, CheckpointStore, Metric


def save(
    store: CheckpointStore,
    step: int,
    metric: float | None = None,
    size: int = 1000,
    error: Exception | None = None,
    name: str = "eval_default_pass1",
) -> None:
    """Save, or fail with `error` when half is written."""
    with store.writing(step, None if metric is None else Metric(name, metric)) as folder:
        (folder / "weights").write_bytes(b"w" * size)
        if error:
            raise error


def steps(store: CheckpointStore) -> list[int]:
    return [found.step for found in store.all()]


def test_an_absent_folder_holds_none(tmp_path):
    store = CheckpointStore(tmp_path / "absent", 3, float("inf"))
    assert store.latest() is None
    assert store.best() is None
    assert not (tmp_path / "absent").exists()


def test_an_error_while_writing_leaves_the_last_good_one(tmp_path):
    store = CheckpointStore(tmp_path, 3, float("inf"))
    save(store, 1)
    with pytest.raises(ZeroDivisionError):
        save(store, 2, error=ZeroDivisionError())
    assert steps(store) == [1]
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".writing")] == []


def test_what_a_killed_save_left_is_no_checkpoint_and_goes_with_the_next_save(tmp_path):
    store = CheckpointStore(tmp_path, 3, float("inf"))
    save(store, 1)
    leftover = tmp_path / ".writing_global_step2"
    leftover.mkdir()
    (leftover / "weights").write_text("half")
    assert store.latest().step == 1
    save(store, 2)
    assert steps(store) == [1, 2]
    assert not leftover.exists()


def test_a_full_disk_is_one_line_that_says_what_is_left(tmp_path):
    store = CheckpointStore(tmp_path, 3, float("inf"))
    save(store, 4)
    with pytest.raises(CheckpointError, match=r"step 5 .*No space left.*the checkpoint of step 4 is kept"):
        save(store, 5, error=OSError(28, "No space left on device"))
    assert store.latest().step == 4


def test_an_older_one_goes_when_the_newer_one_is_on_the_disk_with_its_name(tmp_path, monkeypatch):
    store, events = CheckpointStore(tmp_path, 1, float("inf")), []
    save(store, 1)
    synced, removed = os.fsync, shutil.rmtree

    def fsync(handle):
        events.append(Path(os.readlink(f"/proc/self/fd/{handle}")).name)
        synced(handle)

    def rmtree(path, **options):
        events.append(f"remove {path.name}")
        removed(path, **options)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(shutil, "rmtree", rmtree)
    save(store, 2)
    hidden = ".writing_global_step2"
    assert sorted(events[:3]) == sorted(["weights", "checkpoint.json", hidden])
    assert events[3] == tmp_path.name
    assert "remove .writing_old_global_step1" in events[4:]


@pytest.mark.parametrize("step", [2, 1])
def test_a_removal_that_is_cut_off_leaves_nothing_that_passes_for_a_checkpoint(tmp_path, monkeypatch, step):
    """Of an older checkpoint, or of one of the same step."""
    store = CheckpointStore(tmp_path, 1, float("inf"))
    save(store, 1)
    whole = shutil.rmtree

    def killed(path, **options):
        if not (path / "weights").exists():  # the folder that is written, which has its name already
            return whole(path, **options)
        (path / "weights").unlink()
        raise KeyboardInterrupt

    monkeypatch.setattr(shutil, "rmtree", killed)
    with pytest.raises(KeyboardInterrupt):
        save(store, step)
    monkeypatch.undo()
    assert all((found.folder / "weights").exists() for found in store.all())
    save(store, 3)
    assert steps(store) == [3]
    assert list(tmp_path.glob(".writing*")) == []


def test_a_disk_that_does_not_let_older_ones_go_costs_no_checkpoint(tmp_path, monkeypatch, caplog):
    store = CheckpointStore(tmp_path, 1, float("inf"))
    save(store, 1)

    def refuses(path, ignore_errors=False):
        if "old" in path.name and not ignore_errors:
            raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(shutil, "rmtree", refuses)
    for step in (2, 3):
        save(store, step)
    assert steps(store) == [3]
    assert "checkpoint of step 3 is saved" in caplog.text
    assert "Permission denied" in caplog.text


@pytest.fixture
def stubborn(monkeypatch):
    """What was a checkpoint cannot be deleted, as where another process holds a file of it open over NFS."""
    whole = shutil.rmtree

    def refuses(path, ignore_errors=False):
        if "old" not in path.name:
            whole(path, ignore_errors=ignore_errors)
        elif not ignore_errors:
            raise OSError(39, "Directory not empty")

    monkeypatch.setattr(shutil, "rmtree", refuses)


def test_a_step_that_is_saved_again_stays_saved_where_the_older_one_cannot_be_deleted(tmp_path, caplog, stubborn):
    store = CheckpointStore(tmp_path, 3, float("inf"))
    for size in (10, 20, 30):  # the third meets what the second has left behind
        save(store, 2, size=size)
        assert (store.latest().folder / "weights").stat().st_size == size
    assert caplog.text.count("checkpoint of step 2 is saved") == 2


def test_a_step_that_cannot_be_saved_again_keeps_the_older_one(tmp_path, monkeypatch):
    store = CheckpointStore(tmp_path, 3, float("inf"))
    save(store, 2, size=10)
    rename = Path.rename

    def refuses(path, target):
        if path.name == ".writing_global_step2":
            raise OSError(5, "Input/output error")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", refuses)
    with pytest.raises(CheckpointError, match="Input/output error; the checkpoint of step 2 is kept"):
        save(store, 2, size=20)
    assert (store.latest().folder / "weights").stat().st_size == 10


def test_links_are_made_also_where_an_older_one_cannot_be_deleted(tmp_path, stubborn):
    store = CheckpointStore(tmp_path, 1, float("inf"))
    save(store, 1)
    save(store, 2)
    assert (tmp_path / "latest").resolve().name == "global_step2"


def test_links_that_cannot_be_made_cost_neither_a_checkpoint_nor_a_rating(tmp_path, monkeypatch, caplog):
    """As on a file system without links."""

    def refuses(self, target):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(Path, "symlink_to", refuses)
    store = CheckpointStore(tmp_path, 1, float("inf"))
    save(store, 1)
    store.rate(1, Metric("eval_default_pass1", 0.5))
    assert store.best().step == 1
    assert caplog.text.count("Operation not supported") == 2


def test_rotation_by_number_spares_the_newest_and_the_best(tmp_path):
    store = CheckpointStore(tmp_path, 2, float("inf"))
    save(store, 1, metric=0.9)  # the best
    save(store, 2)
    save(store, 3, metric=0.2)
    # Three, one too many: 2 has no metric, so it goes first.
    assert steps(store) == [1, 3]
    save(store, 4, metric=0.1)
    # 3 goes: 1 is the best, 4 the newest.
    assert steps(store) == [1, 4]
    assert store.best().step == 1
    assert (tmp_path / "best").resolve().name == "global_step1"
    assert (tmp_path / "latest").resolve().name == "global_step4"


def test_only_one_to_keep_and_an_older_best_keeps_two(tmp_path):
    store = CheckpointStore(tmp_path, 1, float("inf"))
    save(store, 1, metric=0.9)
    save(store, 2, metric=0.5)
    assert steps(store) == [1, 2]


def test_among_the_rated_the_lowest_goes_first_and_among_equals_the_oldest(tmp_path):
    store = CheckpointStore(tmp_path, 3, float("inf"))
    for step, metric in ((1, 0.5), (2, 0.3), (3, 0.8), (4, 0.3)):
        save(store, step, metric)
    assert steps(store) == [1, 3, 4]  # 2 was the lowest when 4 came; 4 is the newest
    save(store, 5, metric=0.3)
    assert steps(store) == [1, 3, 5]


def test_rotation_by_size(tmp_path):
    # Three of about 1 kB each (and their description); 2.5 kB hold two.
    store = CheckpointStore(tmp_path, 9, 2.5e-6)
    for step in (1, 2, 3):
        save(store, step)
    assert steps(store) == [2, 3]


def test_a_newer_one_of_the_same_step_replaces_the_older(tmp_path):
    store = CheckpointStore(tmp_path, 3, float("inf"))
    save(store, 2, size=10)
    save(store, 2, metric=0.4, size=20)
    assert steps(store) == [2]
    assert (store.latest().folder / "weights").stat().st_size == 20
    assert store.latest().metric == Metric("eval_default_pass1", 0.4)


def test_the_better_of_equals_is_the_newer(tmp_path):
    store = CheckpointStore(tmp_path, 3, float("inf"))
    save(store, 1, metric=0.5)
    save(store, 2, metric=0.5)
    assert store.best().step == 2


def test_values_of_two_metrics_are_not_compared_and_the_newer_metric_counts(tmp_path):
    store = CheckpointStore(tmp_path, 2, float("inf"))
    save(store, 1, metric=40.0, name="eval_response_length_mean")
    save(store, 2, metric=0.3)  # the run goes on with another --ckpt.best_metric_key, or other evaluation prompts
    assert (store.metric_name(), store.best().step) == ("eval_default_pass1", 2)
    save(store, 3, metric=0.2)
    assert steps(store) == [2, 3]  # 1 is the best of nothing that counts
    save(store, 4)
    assert steps(store) == [2, 4]


def test_a_broken_description_is_named(tmp_path):
    folder = tmp_path / "global_step7"
    folder.mkdir()
    (folder / "checkpoint.json").write_text("{")
    with pytest.raises(CheckpointError, match="global_step7"):
        CheckpointStore(tmp_path, 3, float("inf")).latest()


def test_a_folder_of_another_kind_is_left_alone(tmp_path):
    other = Path(tmp_path / "global_step_notes")
    other.mkdir()
    store = CheckpointStore(tmp_path, 1, float("inf"))
    save(store, 1)
    save(store, 2)
    assert other.is_dir()

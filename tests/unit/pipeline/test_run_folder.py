"""A run folder that cannot be made, or at the end takes no model, is named in one line."""

import pytest

from openrlhf.pipeline.checkpoint_store import CheckpointStore
from openrlhf.pipeline.run import _export, _run_folder, _train
from openrlhf.track.errors import TrackError


def test_a_folder_below_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(TrackError, match=r"run folder .*file/run: Not a directory; choose another --ckpt\.output_dir"):
        _run_folder(str(tmp_path / "file" / "run"))


def test_folders_on_the_way_are_made(tmp_path):
    assert _run_folder(str(tmp_path / "a" / "b")).is_dir()
    assert _run_folder(str(tmp_path / "a" / "b")).is_dir()  # again: resuming and overwriting find it there


@pytest.mark.parametrize(
    ("averaged", "written"),
    [(True, "the moving average of the weights, of which no evaluation was made"), (False, "the trained weights")],
)
def test_the_last_line_says_which_weights_were_written(rig, tmp_path, capsys, averaged, written):
    run = rig({"train.enable_ema": averaged})
    _export(run.job, tmp_path)
    assert f"exported to {tmp_path}: {written}" in "".join(capsys.readouterr())


def test_a_full_disk_at_the_end_names_the_way_to_the_model(rig, tmp_path):
    run = rig()

    def full(folder):
        raise OSError(28, "No space left on device")

    run.policy.save_hf = full
    with pytest.raises(TrackError, match=r"model cannot be written: .*No space left on device; .*--ckpt\.load_enable"):
        _export(run.job, tmp_path)


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("cause", [KeyboardInterrupt, ValueError])
def test_an_export_that_does_not_come_to_its_end_costs_no_step(rig, tmp_path, asynchronous, cause):
    """5 steps, saved after the second and the fourth."""
    saving = {"ckpt.path": str(tmp_path / "saves"), "ckpt.save_steps": 2, "ckpt.max_num": 9}
    run = rig(saving | {"train.async_enable": asynchronous}, prompts=10)

    def ends(folder):
        raise cause

    run.policy.save_hf = ends
    with pytest.raises(cause):
        _train(run.job, (), tmp_path / "run")
    assert [found.step for found in CheckpointStore(tmp_path / "saves", 9, 1.0).all()] == [2, 4, 5]

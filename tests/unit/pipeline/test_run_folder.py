"""A run folder that cannot be made is refused in one line, before any process starts."""

import pytest

from openrlhf.pipeline.run import _run_folder
from openrlhf.track.errors import TrackError


def test_a_folder_below_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(TrackError, match=r"run folder .*file/run: Not a directory; choose another --ckpt\.output_dir"):
        _run_folder(str(tmp_path / "file" / "run"))


def test_folders_on_the_way_are_made(tmp_path):
    assert _run_folder(str(tmp_path / "a" / "b")).is_dir()
    assert _run_folder(str(tmp_path / "a" / "b")).is_dir()  # again: resuming and overwriting find it there

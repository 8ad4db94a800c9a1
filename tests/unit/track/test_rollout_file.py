import gzip
import json

import pytest

from openrlhf.track.rollout_file import read_samples, rollout_file, rollout_files, stored_samples, write_samples

ROWS = [{"step": 1, "response": "日本\n", "reward": None}, {"step": 1, "response": "", "reward": 0.5}]


def test_what_is_written_is_read_by_us_and_by_gzip(tmp_path):
    path = rollout_file(tmp_path, 1)
    write_samples(path, ROWS)
    assert path.name == "step_000001.jsonl.gz"
    assert read_samples(path) == ROWS
    assert [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()] == ROWS


def test_tokens_take_less_room_than_as_text(tmp_path):
    rows = [{"token_ids": list(range(1000)), "action_mask": [0] * 100 + [1] * 900, "logprobs": [-0.25] * 1000}]
    write_samples(rollout_file(tmp_path, 1), rows)
    assert rollout_file(tmp_path, 1).stat().st_size < len(json.dumps(rows)) / 3


def test_the_same_samples_give_the_same_bytes(tmp_path, monkeypatch):
    write_samples(tmp_path / "a.gz", ROWS)
    monkeypatch.setattr("time.time", lambda: 1e9)  # what gzip would write into its header
    write_samples(tmp_path / "b.gz", ROWS)
    assert (tmp_path / "a.gz").read_bytes() == (tmp_path / "b.gz").read_bytes()


def test_a_write_that_breaks_off_leaves_the_earlier_file_and_nothing_else(tmp_path, monkeypatch):
    path = rollout_file(tmp_path, 1)
    write_samples(path, ROWS)

    def full(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_samples(path, ROWS[:1])
    assert read_samples(path) == ROWS
    assert list(tmp_path.iterdir()) == [path]


def test_steps_are_listed_in_their_order_and_strangers_are_not(tmp_path):
    for step in (10, 2, 1_000_000):
        write_samples(rollout_file(tmp_path, step), [{"step": step}])
    for stranger in (".step_000003.jsonl.gz", "step_000004.jsonl.gz.part", "step_x.jsonl.gz"):
        (tmp_path / stranger).write_text("")
    assert list(rollout_files(tmp_path)) == [2, 10, 1_000_000]
    assert [sample["step"] for sample in stored_samples(tmp_path)] == [2, 10, 1_000_000]
    assert rollout_files(tmp_path / "none") == {}

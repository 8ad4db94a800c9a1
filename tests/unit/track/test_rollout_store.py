from dataclasses import replace

import numpy as np
import pytest

from openrlhf.images import read_image
from openrlhf.track.rollout_file import read_samples
from openrlhf.track.rollout_store import RolloutStore, TrainedSample
from openrlhf.types import RewardOutcome, RolloutGroup
from tests.pictures import file_of, picture, plain


def test_a_stored_sample_holds_tokens_masks_logprobs_versions_and_verdict(tmp_path, make_group):
    store = RolloutStore(tmp_path / "rollouts", per_step=8)
    store.write(12, [make_group("g", 1, RewardOutcome(1.0, 0.5, extra_logs={"format": 1.0}))], {})
    (row,) = read_samples(tmp_path / "rollouts" / "step_000012.jsonl.gz")
    assert row["prompt"] == "prompt g"
    assert (row["reward"], row["score"], row["status"]) == (1.0, 0.5, "graded")
    assert row["extra_logs"] == {"format": 1.0}
    assert row["segments"] == [
        {
            "token_ids": [5, 6, 7],
            "action_mask": [0, 1, 1],
            "loss_mask": [0, 1, 0],
            "logprobs": [0.0, -0.5, -0.25],
            "policy_versions": [-1, 3, 3],
            "turns": [{"start": 1, "end": 3, "reward": 0.5}],
        }
    ]


def test_few_samples_are_spread_over_the_prompts(tmp_path, make_group):
    store = RolloutStore(tmp_path, per_step=4)
    store.write(1, [make_group("a", 3), make_group("b", 1), make_group("c", 3)], {})
    assert [row["sample_id"] for row in read_samples(tmp_path / "step_000001.jsonl.gz")] == ["a-0", "b-0", "c-0", "a-1"]


def test_an_ungraded_sample_is_stored_with_null_and_its_reason(tmp_path, make_group):
    RolloutStore(tmp_path, per_step=1).write(1, [make_group("a", 1, RewardOutcome.ungraded("grader down"))], {})
    (row,) = read_samples(tmp_path / "step_000001.jsonl.gz")
    assert (row["reward"], row["status"], row["reason"]) == (None, "ungraded", "grader down")


def test_zero_samples_leave_no_folder_and_old_steps_can_be_cleared(tmp_path, make_group):
    RolloutStore(tmp_path / "none", per_step=0).write(1, [make_group("a", 1)], {})
    assert not (tmp_path / "none").exists()
    store = RolloutStore(tmp_path, per_step=1)
    for step in (1, 2, 3):
        store.write(step, [make_group("a", 1)], {})
    store.clear_after(1)
    assert [path.name for path in tmp_path.glob("step_*")] == ["step_000001.jsonl.gz"]


def test_what_training_added_to_the_tokens_lies_beside_them(tmp_path, make_group):
    trained = {"a-1": TrainedSample(0.75, [{"advantages": np.array([0.0, 1.5, -2.0])}])}
    RolloutStore(tmp_path, per_step=2).write(1, [make_group("a", 2)], trained)
    first, second = read_samples(tmp_path / "step_000001.jsonl.gz")
    assert "advantages" not in first["segments"][0]  # this sample was not trained on
    assert second["segments"][0]["advantages"] == [0.0, 1.5, -2.0]
    assert (first["shaped_reward"], second["shaped_reward"]) == (None, 0.75)


def test_images_are_files_beside_the_steps_each_of_them_once(tmp_path, make_group):
    red, photo = picture("red"), read_image(file_of(plain("blue"), "JPEG"))
    group = make_group("a", 2)
    shown = [
        replace(rollout, segments=(replace(rollout.segments[0], images=images),))
        for rollout, images in zip(group.rollouts, [(red,), (photo, red)], strict=True)
    ]
    RolloutStore(tmp_path, per_step=2).write(1, [replace(group, rollouts=tuple(shown))], {})
    first, second = read_samples(tmp_path / "step_000001.jsonl.gz")
    (red_name,) = first["segments"][0]["images"]
    assert second["segments"][0]["images"] == [f"{photo.digest[:16]}.jpg", red_name]
    assert (tmp_path / "images" / red_name).read_bytes() == red.data
    assert len(list((tmp_path / "images").iterdir())) == 2


def test_an_image_whose_write_breaks_off_is_written_the_next_time(tmp_path, make_group, monkeypatch):
    (rollout,) = make_group("a", 1).rollouts
    red = picture("red")
    seen = replace(rollout, segments=(replace(rollout.segments[0], images=(red,)),))
    store = RolloutStore(tmp_path, per_step=1)

    def full(_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full)
        with pytest.raises(OSError, match="No space left"):
            store.write(1, [RolloutGroup("a", (seen,))], {})
    assert list((tmp_path / "images").iterdir()) == []
    store.write(2, [RolloutGroup("a", (seen,))], {})
    (file,) = (tmp_path / "images").iterdir()
    assert file.read_bytes() == red.data


def test_what_is_no_number_is_null(tmp_path, make_group):
    """JSON has no infinity, and a record that cannot be written is no reason to end a run."""
    trained = {"a-0": TrainedSample(float("nan"), [{"advantages": np.array([0.0, np.inf, -2.0])}])}
    outcome = RewardOutcome(1.0, 1.0, extra_logs={"ratio": float("inf")})
    RolloutStore(tmp_path, per_step=1).write(1, [make_group("a", 1, outcome)], trained)
    (row,) = read_samples(tmp_path / "step_000001.jsonl.gz")
    assert row["segments"][0]["advantages"] == [0.0, None, -2.0]
    assert (row["shaped_reward"], row["extra_logs"]) == (None, {"ratio": None})

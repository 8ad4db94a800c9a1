import json
import math

import pytest

from openrlhf.track.metrics_file import MetricsFile, read_rows


def test_a_row_is_on_disk_before_the_file_is_closed(tmp_path):
    file = MetricsFile(tmp_path / "metrics.jsonl")
    file.write(1, {"rollout/reward_mean": 0.25})
    assert read_rows(tmp_path / "metrics.jsonl") == [{"step": 1, "rollout/reward_mean": 0.25}]
    file.write(2, {"rollout/reward_mean": 0.5})
    assert [row["step"] for row in read_rows(tmp_path / "metrics.jsonl")] == [1, 2]


def test_nan_and_infinity_become_null_and_the_line_is_strict_json(tmp_path):
    file = MetricsFile(tmp_path / "metrics.jsonl")
    file.write(1, {"a": math.nan, "b": math.inf, "c": 1.0})

    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    row = json.loads((tmp_path / "metrics.jsonl").read_text(), parse_constant=refuse)
    assert row == {"step": 1, "a": None, "b": None, "c": 1.0}


def test_an_evaluation_joins_the_line_of_its_step(tmp_path):
    file = MetricsFile(tmp_path / "metrics.jsonl")
    file.write(0, {"eval_default_pass1": 0.1})
    file.write(1, {"rollout/reward_mean": 0.5})
    file.write(1, {"eval_default_pass1": 0.75})
    file.write(2, {"rollout/reward_mean": 0.25})
    assert read_rows(tmp_path / "metrics.jsonl") == [
        {"step": 0, "eval_default_pass1": 0.1},
        {"step": 1, "rollout/reward_mean": 0.5, "eval_default_pass1": 0.75},
        {"step": 2, "rollout/reward_mean": 0.25},
    ]


def test_steps_cannot_go_back(tmp_path):
    file = MetricsFile(tmp_path / "metrics.jsonl")
    file.write(2, {"a": 1.0})
    with pytest.raises(ValueError, match="step 1 after those of step 2"):
        file.write(1, {"a": 1.0})


@pytest.mark.parametrize("half", ['{"step": 3, "a": 3', '{"step": 3, "a": 3.0}', "\0\0\0\n", "3\n", '{"a": 3.0}\n'])
def test_a_line_that_a_full_disk_cut_off_is_repeated_by_the_resumed_run(tmp_path, caplog, half):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "a": 1.0}\n{"step": 2, "a": null}\n' + half)
    resumed = MetricsFile(path, resume_after=3)
    assert f"{path}: line 3 cannot be read" in caplog.text
    resumed.write(3, {"a": 30.0})
    assert read_rows(path) == [{"step": 1, "a": 1.0}, {"step": 2, "a": None}, {"step": 3, "a": 30.0}]
    assert [row["step"] for row in resumed.rows] == [1, 2, 3]


def test_an_evaluation_joins_the_last_line_that_a_resumed_run_kept(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1, "a": 1.0}\n{"step": 2, "a": 2.0}\n{"step": 3, "a": 3.0}\n')
    MetricsFile(path, resume_after=2).write(2, {"eval_default_pass1": 0.5})
    assert read_rows(path) == [{"step": 1, "a": 1.0}, {"step": 2, "a": 2.0, "eval_default_pass1": 0.5}]


def test_a_new_run_starts_an_empty_file_and_a_resumed_one_keeps_rows_up_to_its_checkpoint(tmp_path):
    path = tmp_path / "metrics.jsonl"
    first = MetricsFile(path)
    for step in (1, 2, 3):
        first.write(step, {"a": float(step), "b": math.nan})
    first.close()

    resumed = MetricsFile(path, resume_after=2)
    resumed.write(3, {"a": 30.0})
    assert [(row["step"], row["a"]) for row in read_rows(path)] == [(1, 1.0), (2, 2.0), (3, 30.0)]
    assert read_rows(path)[-1] == {"step": 3, "a": 30.0}  # nothing of the dropped step 3 is left in it
    assert math.isnan(resumed.rows[0]["b"])
    resumed.close()

    MetricsFile(path).write(1, {"a": 7.0})
    assert read_rows(path) == [{"step": 1, "a": 7.0}]

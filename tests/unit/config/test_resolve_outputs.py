"""Where a run writes."""

import pytest

RAY_JOB = {"RAY_JOB_CONFIG_JSON_ENV_VAR": "{}"}


def test_relative_outputs_become_absolute_without_a_warning(resolved, workplace):
    resolution = resolved({"logger.tensorboard_dir": "tb"})
    assert resolution.config.ckpt.output_dir == str(workplace / "ckpt")
    assert resolution.config.logger.tensorboard_dir == str(workplace / "tb")
    assert resolution.warnings == ()


def test_inside_a_ray_job_they_are_anchored(resolved):
    resolution = resolved({"ckpt.output_dir": "./runs/x"}, environ=RAY_JOB | {"OPENRLHF_PATH": "/shared/code"})
    assert resolution.config.ckpt.output_dir == "/shared/code/runs/x"
    assert resolution.warnings == ()


def test_without_an_anchor_the_absolute_path_is_said_at_start_and_end(resolved, workplace):
    resolution = resolved({"ckpt.output_dir": "runs/x"}, environ=RAY_JOB)
    (line,) = resolution.warnings
    assert str(workplace / "runs/x") in line
    assert "OPENRLHF_PATH" in line
    assert resolution.closing == resolution.warnings


def test_an_absolute_path_is_left_alone(resolved, tmp_path):
    path = str(tmp_path / "out")
    assert (
        resolved({"ckpt.output_dir": path}, environ=RAY_JOB | {"OPENRLHF_PATH": "/shared"}).config.ckpt.output_dir
        == path
    )


def test_a_full_run_folder_is_refused_unless_told_to_overwrite(resolved, problems, workplace):
    (workplace / "ckpt/tensorboard").mkdir(parents=True)
    resolved()  # folders alone hold nothing to lose
    (workplace / "ckpt/tensorboard/events").write_text("x")
    (line,) = problems()
    assert "--ckpt.overwrite" in line
    assert resolved({"ckpt.overwrite": True}).config.ckpt.output_dir == str(workplace / "ckpt")


@pytest.mark.parametrize("path", ["x" * 300, "a\0b", "/tmp/" + "x/" * 3000])
@pytest.mark.parametrize("flag", ["ckpt.output_dir", "logger.tensorboard_dir"])
def test_a_name_that_no_path_can_have_is_one_short_line(problems, flag, path):
    (line,) = problems({flag: path})
    assert line.startswith(f"--{flag} ")
    assert len(line) < 300


def test_a_run_folder_that_is_a_file_is_refused(problems, workplace):
    (workplace / "ckpt").write_text("x")
    (line,) = problems()
    assert line.endswith("is a file, not a folder")


def test_a_resuming_run_may_have_a_full_folder(resolved, workplace):
    (workplace / "ckpt").mkdir()
    (workplace / "ckpt/x").write_text("x")
    assert resolved({"ckpt.load_enable": True}).config.ckpt.load_enable


def test_checkpoints_lie_where_output_lies(resolved, workplace):
    assert resolved({"ckpt.path": "saves", "ckpt.save_steps": 2}).config.ckpt.path == str(workplace / "saves")


def test_checkpoints_that_would_hold_nothing_are_refused(problems, resolved):
    (line,) = problems({"ckpt.save_steps": 2, "ckpt.disable_ds": True})
    assert "--ckpt.save_hf" in line
    assert resolved({"ckpt.save_steps": 2, "ckpt.disable_ds": True, "ckpt.save_hf": True}).config.ckpt.saves


def test_a_best_metric_needs_an_evaluation(problems):
    (line,) = problems({"ckpt.best_metric_key": "eval_default_pass1"})
    assert "never evaluates" in line


def test_the_folder_of_the_value_network_must_be_free_too(problems, resolved, workplace):
    (workplace / "run_critic").mkdir()
    (workplace / "run_critic/config.json").write_text("{}")
    changes = {"ckpt.output_dir": "run", "algo.advantage.estimator": "gae"}
    assert resolved(changes).warnings == ()
    (line,) = problems(changes | {"critic.save_value_network": True})
    assert str(workplace / "run_critic") in line
    assert "holds files already" in line


def test_checkpoints_of_an_earlier_run_are_gone_on_from_or_removed_by_name(problems, resolved, workplace):
    (workplace / "saves/global_step6").mkdir(parents=True)
    (workplace / "saves/global_step6/checkpoint.json").write_text("{}")
    saves = {"ckpt.path": "saves", "ckpt.save_steps": 2}
    (line,) = problems(saves)
    assert "--ckpt.load_enable" in line
    assert "--ckpt.overwrite" in line
    for way_out in ("ckpt.load_enable", "ckpt.overwrite"):
        assert resolved(saves | {way_out: True}).warnings == ()

"""The command's main: exit codes, one line per problem, --dry_run."""

import pytest
import yaml

from openrlhf.cli.train_ppo_ray import main
from tests.models import make_tiny_tokenizer, tiny_llama_config


@pytest.fixture
def argv(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    tiny_llama_config().save_pretrained(tmp_path / "model")
    make_tiny_tokenizer().save_pretrained(tmp_path / "model")
    (tmp_path / "prompts.jsonl").write_text('{"input": "1+1"}\n')
    (tmp_path / "reward.py").write_text("def reward_func(queries, prompts, labels):\n    return [1.0]\n")
    line = "--actor.model_name_or_path model --data.prompt_dataset prompts.jsonl --reward.remote_url reward.py "
    return [*line.split(), "--advantage_estimator", "reinforce", "--device", "cpu", "--data.max_len", "1024"]


def test_dry_run_prints_the_resolved_config_and_starts_nothing(argv, capsys, tmp_path):
    assert main([*argv, "--dry_run"]) == 0
    printed = capsys.readouterr()
    config = yaml.safe_load(printed.out)
    assert config["device"] == "cpu"
    assert config["vllm"]["sync_backend"] == "shm"
    assert config["ckpt"]["output_dir"] == str(tmp_path / "ckpt")
    assert printed.err == "warning: --advantage_estimator is the old name of --algo.advantage.estimator\n"
    assert not (tmp_path / "ckpt").exists()


def test_dry_run_opens_the_inputs(argv, capsys, tmp_path):
    (tmp_path / "prompts.jsonl").write_text('{"question": "1+1"}\n')
    (tmp_path / "reward.py").write_text("def reward_func(queries, prompts, labels):\n    pass\nraise OSError('no')\n")
    assert main([*argv, "--dry_run"]) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 2
    assert any("no column 'input'" in line for line in errors)
    assert any("OSError" in line for line in errors)


def test_problems_are_one_line_each_and_exit_2(argv, capsys):
    assert main([*argv, "--train.batch_size", "0", "--actor.model_name_or_path", "other"]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        "error: --actor.model_name_or_path is given twice with different values: "
        "--actor.model_name_or_path 'model' and --actor.model_name_or_path 'other'"
    ]
    assert main([*argv, "--train.batch_size", "0", "--load_in_4bit"]) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 2

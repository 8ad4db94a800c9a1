"""The resolved config as YAML."""

import yaml

from openrlhf.config.parse import parse_ppo
from openrlhf.config.ppo import PPOConfig
from openrlhf.config.schema import flags, flatten, given
from openrlhf.config.yaml_file import read_yaml, to_yaml


def test_a_resolved_config_comes_back_equal(resolved, tmp_path):
    changes = {"actor.eps_clip_low_high": (0.2, 0.28), "actor.adam.lr": 5e-7, "ds.zero_stage": 3, "train.max_steps": 4}
    config = resolved(changes).config
    file = tmp_path / "config.yaml"
    file.write_text(to_yaml(config))
    assert read_yaml(str(file)) == config
    assert parse_ppo(["--config", str(file)]).config == config


def test_every_flag_but_the_secret_is_written():
    written = set(flatten(yaml.safe_load(to_yaml(PPOConfig()))))
    assert written == set(flags()) - {"logger.wandb.key"}


def test_the_wandb_key_is_never_written():
    config = PPOConfig.model_validate({"logger": {"wandb": {"key": "0123secret"}}})
    assert "0123secret" not in to_yaml(config)


def test_defaults_in_a_dump_do_not_count_as_given(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text(to_yaml(PPOConfig.model_validate({"train": {"seed": 7}})))
    assert given(read_yaml(str(file))) == {"train.seed"}


def test_an_empty_file_gives_the_defaults(tmp_path):
    file = tmp_path / "config.yaml"
    file.write_text("# nothing\n")
    assert read_yaml(str(file)) == PPOConfig()

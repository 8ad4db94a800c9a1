"""The resolved config as YAML."""

import pytest
import yaml

from openrlhf.config.machine import Machine
from openrlhf.config.parse import parse_ppo
from openrlhf.config.ppo import PPOConfig
from openrlhf.config.resolve import Resolution, resolve
from openrlhf.config.schema import flags, flatten, given, values
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


def reread(tmp_path, first: list[str], then: list[str]) -> Resolution:
    """A run's own file as the defaults of another: both resolved on a CPU."""
    (tmp_path / "prompts.jsonl").write_text("{}")
    (tmp_path / "reward.py").write_text("def reward_func(queries, prompts, labels): ...")
    prompts, reward = str(tmp_path / "prompts.jsonl"), str(tmp_path / "reward.py")
    inputs = ["--data.prompt_dataset", prompts, "--reward.remote_url", reward]
    before = resolve(parse_ppo([*inputs, *first]).config, {}, Machine())
    file = tmp_path / "config.yaml"
    file.write_text(to_yaml(before.config, before.derived))
    assert read_yaml(str(file)) == before.config  # what a checkpoint is compared by: everything
    return resolve(parse_ppo(["--config", str(file), *then]).config, {}, Machine())


@pytest.mark.parametrize(
    ("first", "then", "path", "value"),
    [
        ([], ["--actor.model_name_or_path", "b/two"], "ref.model_name_or_path", "b/two"),
        (["--train.dynamic_batch_enable"], ["--train.max_tokens_per_gpu", "4096"], "rollout.max_tokens_per_gpu", 4096),
        ([], ["--rollout.batch_size", "256"], "rollout.vllm_generate_batch_size", 256),
        (["--ref.model_name_or_path", "c"], ["--actor.model_name_or_path", "b"], "ref.model_name_or_path", "c"),
    ],
)
def test_what_followed_from_other_flags_follows_from_the_new_ones(tmp_path, first, then, path, value):
    again = reread(tmp_path, ["--actor.model_name_or_path", "a/one", "--algo.kl.init_coef", "0.01", *first], then)
    assert values(again.config)[path] == value


def test_what_somebody_changes_in_the_file_is_given(tmp_path):
    file = tmp_path / "config.yaml"
    config = PPOConfig.model_validate({"ds": {"param_dtype": "bf16", "attn_implementation": "sdpa"}})
    text = to_yaml(config, {"ds.param_dtype", "ds.attn_implementation"})
    file.write_text(text.replace("param_dtype: bf16", "param_dtype: fp32", 1))
    assert given(read_yaml(str(file), anew=True)) == {"ds.param_dtype"}

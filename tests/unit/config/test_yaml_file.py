"""The resolved config as YAML."""

import pytest
import yaml

from openrlhf.config.errors import ConfigError
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
    before = resolve(parse_ppo([*inputs, *first]).config, {}, Machine(), root=tmp_path)
    file = tmp_path / "config.yaml"
    file.write_text(to_yaml(before.config, before.derived))
    assert read_yaml(str(file)) == before.config  # what a checkpoint is compared by: everything
    return resolve(parse_ppo(["--config", str(file), *then]).config, {}, Machine(), root=tmp_path)


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


@pytest.mark.parametrize(
    "text",
    [
        "train:\n  # max_steps: 10\nactor:\n  adam:\n  # lr: 1e-6\n",
        "actor.adam:\n",
        "derived:\n",
        "train: {}\n",
        "train: null\nderived: ~\n",
    ],
)
def test_a_section_whose_keys_are_commented_out_says_nothing(tmp_path, text):
    file = tmp_path / "run.yaml"
    file.write_text(text)
    assert read_yaml(str(file)) == PPOConfig()


@pytest.mark.parametrize("key", ["train", "actor.adam", "derived"])
def test_a_value_where_a_section_stands_is_said_as_it_is(tmp_path, key):
    file = tmp_path / "run.yaml"
    file.write_text(f"{key}: 5\n")
    with pytest.raises(ConfigError) as caught:
        read_yaml(str(file))
    assert caught.value.problems == (f"{file}: {key} takes keys, not a value",)


@pytest.mark.parametrize("word", ["1_000", "1:30", "0x1_0", "-1_0", "190:20:30"])
def test_a_whole_number_of_a_file_is_written_as_on_the_command_line(tmp_path, word):
    """YAML 1.1 reads 1000, 90, 16, -10 and 685230."""
    file = tmp_path / "run.yaml"
    file.write_text(f"train:\n  max_steps: {word}\n")
    with pytest.raises(ConfigError) as caught:
        read_yaml(str(file))
    assert caught.value.problems == (f"{file}: train.max_steps {word!r}: {word!r} is no whole number",)


@pytest.mark.parametrize("word", ["1_0.5", "1:30.5", "1_0"])
def test_so_is_any_other_number(tmp_path, word):
    """YAML 1.1 reads 10.5, 90.5 and 10."""
    file = tmp_path / "run.yaml"
    file.write_text(f"actor.adam.betas: [0.9, {word}]\n")
    with pytest.raises(ConfigError) as caught:
        read_yaml(str(file))
    assert caught.value.problems == (f"{file}: actor.adam.betas [0.9, {word!r}]: {word!r} is no number",)


def test_a_leading_zero_changes_no_number_and_texts_keep_their_form(tmp_path):
    """As `--train.max_steps 010`, which is 10; YAML 1.1 reads 8. A folder may be called 1_000. 0x10 is 16."""
    file = tmp_path / "run.yaml"
    file.write_text("train.max_steps: 010\ntrain.seed: 08\nckpt.output_dir: 1_000\nckpt.max_num: 0x10\n")
    read = read_yaml(str(file))
    assert (read.train.max_steps, read.train.seed, read.ckpt.max_num, read.ckpt.output_dir) == (10, 8, 16, "1_000")
    assert parse_ppo(["--train.max_steps", "010"]).config.train.max_steps == 10
    again = tmp_path / "again.yaml"
    again.write_text(to_yaml(read))
    assert read_yaml(str(again)) == read

"""From argv to a config: values, defaults from YAML, repeats, unknown names."""

import subprocess
import sys

import pytest

from openrlhf.config.errors import ConfigError
from openrlhf.config.parse import parse_ppo
from openrlhf.config.tokens import split


def problems_of(*argv: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse_ppo(argv)
    return list(caught.value.problems)


def test_split_keeps_negative_numbers_and_equals_signs():
    found, stray = split(["early", "--a.b-c", "-1", "2", "--d=x=y", "--e="])
    assert stray == ["early"]
    assert [(entry.name, entry.values) for entry in found] == [("a.b_c", ("-1", "2")), ("d", ("x=y",)), ("e", ("",))]


def test_every_kind_of_value():
    line = (
        "--actor.adam.lr 5e-7 --actor.adam.betas 0.8 0.9 --train.seed=7 --reward.clip_range -1 1 --ds.zero_stage 3 "
        "--ds.lora.target_modules q_proj k_proj --rollout.max-new-tokens 16 --train.colocate_all --ckpt.path=--odd"
    )
    config = parse_ppo(line.split()).config
    assert config.actor.adam.lr == 5e-7
    assert config.actor.adam.betas == (0.8, 0.9)
    assert config.train.seed == 7
    assert config.reward.clip_range == (-1.0, 1.0)
    assert config.ds.zero_stage == 3
    assert config.ds.lora.target_modules == ("q_proj", "k_proj")
    assert config.rollout.max_new_tokens == 16
    assert config.train.colocate_all is True
    assert config.ckpt.path == "--odd"


def test_explicit_flags_are_known():
    parsed = parse_ppo(["--train.seed", "42", "--dry_run", "--zero_stage", "2"])
    assert parsed.dry_run is True
    assert parsed.explicit == {"train.seed", "ds.zero_stage"}
    assert parsed.config.model_fields_set == {"train", "ds"}


@pytest.mark.parametrize(
    ("argv", "names"),
    [
        (["--adam.lr", "1"], ["--actor.adam.lr", "--critic.adam.lr"]),
        (["--rollout.batchsize", "1"], ["--rollout.batch_size"]),
        (["--rolout_batch_size", "1"], ["--rollout.batch_size"]),
        (["--train.no_seed"], ["--train.seed"]),
        (["--ds.zero", "3"], ["--ds.zero_stage"]),
    ],
)
def test_an_unknown_flag_is_one_line_with_the_nearest_names(argv, names):
    (line,) = problems_of(*argv)
    assert line.startswith(f"{argv[0]} is no flag of train_ppo_ray; nearest: ")
    assert all(name in line for name in names)


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--train.batch_size", "abc"], "'abc' is no whole number"),
        (["--train.batch_size", "1.5"], "'1.5' is no whole number"),
        (["--actor.adam.lr", "fast"], "'fast' is no number"),
        (["--ds.zero_stage", "7"], "choose one of 0, 1, 2, 3"),
        (["--ds.param_dtype", "bfloat16"], "choose one of bf16, fp16, fp32"),
        (["--reward.clip_range", "1"], "2 values must follow, not 1"),
        (["--train.seed"], "one value must follow, not 0"),
        (["--train.seed", "1", "stray"], "one value must follow, not 2"),
        (["--actor.model_name_or_path", ""], "the value is empty"),
        (["stray"], "belongs to no flag"),
    ],
)
def test_a_value_that_does_not_fit_is_one_line(argv, says):
    (line,) = problems_of(*argv)
    assert argv[0] in line
    assert says in line


def test_all_faults_are_reported_together():
    assert len(problems_of("--nonsense", "--train.seed", "x", "--ds.zero_stage", "9", "--use_ms", "maybe")) == 4


def test_a_repeated_flag_with_different_values_is_refused():
    (line,) = problems_of("--train.seed", "1", "--train.seed=2")
    assert "--train.seed is given twice with different values" in line


def test_whole_numbers_are_compared_exactly():
    # 2^53 + 1 and 2^53 are the same float.
    (line,) = problems_of("--train.seed", "9007199254740993", "--train.seed", "9007199254740992")
    assert "is given twice with different values" in line


@pytest.mark.parametrize("word", ["\uff11\uff12", "1_0", "\u00b2", "9" * 5000, "9" * 19])
@pytest.mark.parametrize("flag", ["--train.seed", "--max_epochs"])
def test_a_whole_number_is_written_in_at_most_18_plain_digits(flag, word):
    (line,) = problems_of(flag, word)
    assert "is no whole number" in line
    assert len(line) < 400


@pytest.mark.parametrize("word", ["\uff11.5", "1_0.5"])
def test_a_number_is_written_in_plain_digits(word):
    (line,) = problems_of("--actor.adam.lr", word)
    assert "is no number" in line


def test_a_repeated_flag_with_the_same_value_passes_with_a_warning():
    argv = ["--actor.adam.lr", "1e-6", "--actor.adam.lr=0.000001", "--normalize_reward", "--normalize_reward"]
    parsed = parse_ppo(argv)
    assert parsed.config.actor.adam.lr == 1e-6
    assert parsed.config.reward.normalize_enable is True
    assert len(parsed.warnings) == 3  # two repeats, one old name


def test_a_switch_that_is_on_and_off_is_refused():
    assert len(problems_of("--train.colocate_all", "--train.no_colocate_all")) == 1


def test_the_wandb_key_is_never_shown():
    secret = "0123456789abcdef"
    (line,) = problems_of("--logger.wandb.key", secret, "--logger.wandb.key", "other")
    assert secret not in line


@pytest.mark.parametrize(
    "text",
    [
        "logger.wandb.key: 123456789",
        "logger: {wandb: {key: [123456789]}}",
        "logger.wandb.key: !!int 123456789abc",
        "logger.wandb.key: 123456789: 1",
        "logger.wandb.key: {123456789: 1}",
        "logger.wandb.key: [123456789",
    ],
)
def test_the_wandb_key_in_a_wrong_yaml_file_is_not_shown(tmp_path, text):
    file = tmp_path / "run.yaml"
    file.write_text(text)
    (line,) = problems_of("--config", str(file))
    assert "123456789" not in line.replace(str(file), "")


def test_a_password_in_an_address_is_not_shown():
    (line,) = problems_of("--reward.remote_url", "http://u:pw@a", "--reward.remote_url", "http://u:pw@b")
    assert "pw" not in line
    assert "'http://***@b'" in line


def test_yaml_gives_defaults_that_flags_override(tmp_path):
    file = tmp_path / "run.yaml"
    file.write_text("actor:\n  adam: {lr: 5e-7, betas: [0.8, 0.9]}\ntrain.seed: 1\nref.model_name_or_path: None\n")
    parsed = parse_ppo(["--config", str(file), "--train.seed", "2"])
    assert parsed.config.actor.adam.lr == 5e-7
    assert parsed.config.actor.adam.betas == (0.8, 0.9)
    assert parsed.config.train.seed == 2
    assert parsed.config.ref.model_name_or_path is None
    assert parsed.explicit == {"train.seed"}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("actor: {adam: {learning: 1}}\n", "no key actor.adam.learning"),
        ("train: {batchsize: 1}\n", "nearest: train.batch_size"),
        ("rollout_batch_size: 1\n", "write rollout.batch_size"),
        ("train: {seed: x}\n", "train.seed 'x'"),
        ("- a\n", "holds a list"),
        ("a: [\n", "expected the node content"),
        ("train: {seed: true}\n", "train.seed True: true is no whole number"),
        ("actor.adam.lr: true\n", "actor.adam.lr True: true is no number"),
        ("actor.adam: {betas: [0.9, true]}\n", "actor.adam.betas [0.9, True]: true is no number"),
        ("ds.zero_stage: true\n", "ds.zero_stage True: true is no whole number"),
        ("data: {input_key: ''}\n", "data.input_key '': the value is empty"),
        ("data: {label_key: ''}\n", "data.label_key '': the value is empty"),
        ("eval.dataset: ''\n", "eval.dataset '': the value is empty"),
        ("train.seed: '1_0'\n", "train.seed '1_0': '1_0' is no whole number"),
        ("x: 2024-13-45\n", "line 1: x: written like YAML's type timestamp"),
        ("\ntrain.seed: !!int abc\n", "line 2: train.seed: written like YAML's type int"),
        ("train.seed: !!bool abc\n", "line 1: train.seed: written like YAML's type bool"),
        ("a: [!!int abc]\n", "line 1: written like YAML's type int"),
        ("a: [!!bool abc]\n", "line 1: written like YAML's type bool"),
        ("train: {seed: {a: 1}}\n", "train.seed takes a value, not keys"),
        ("train.seed: " + "9" * 5000 + "\n", "train.seed: written like YAML's type int"),
        ("train.seed: 0x" + "f" * 5000 + "\n", "train.seed : a number has at most 18 digits"),
        ("actor.adam.lr: " + "9" * 400 + "\n", "actor.adam.lr : a number has at most 18 digits"),
        ("a: &x {b: *x}\n", "holds itself"),
        ("a: &x [*x]\n", "no key a"),
        ("data.input_key: &x [*x]\n", "data.input_key [[...]]"),
        ("[" * 5000, "nested too deeply"),
        ("a: " + "{a: " * 5000, "nested too deeply"),
        ("train: {seed: 1, seed: 2}\n", "key seed stands twice"),
        ("train: {seed: 1}\ntrain.seed: 2\n", "a key stands twice"),
    ],
)
def test_a_wrong_yaml_file_names_key_and_file(tmp_path, text, says):
    file = tmp_path / "run.yaml"
    file.write_text(text)
    (line,) = problems_of("--config", str(file))
    assert str(file) in line
    assert says in line


def test_a_missing_yaml_file_is_one_line(tmp_path):
    assert problems_of("--config", str(tmp_path / "no.yaml")) == [
        f"--config {tmp_path / 'no.yaml'}: No such file or directory"
    ]


def test_help_lists_flags_and_exits_0(capsys):
    with pytest.raises(SystemExit) as stopped:
        parse_ppo(["--help"])
    assert stopped.value.code == 0
    shown = capsys.readouterr().out
    assert "--actor.adam.lr" in shown
    assert "--config" in shown


def test_parsing_imports_no_heavy_package():
    code = (
        "import sys; from openrlhf.config.parse import parse_ppo; import openrlhf.config.resolve; "
        "parse_ppo(['--train.seed', '1']); "
        "print(sorted({'torch', 'ray', 'vllm', 'deepspeed', 'transformers', 'datasets'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == "[]", done.stderr

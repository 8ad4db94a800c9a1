"""Old names work with one warning line and real effect, or are refused with what to use."""

from pathlib import Path

import pytest

from openrlhf.config.errors import ConfigError
from openrlhf.config.legacy import ALWAYS, REMOVED, RENAMED, SWITCHES, translate
from openrlhf.config.parse import PROGRAM, parse_ppo
from openrlhf.config.schema import flags, values
from openrlhf.config.tokens import split

OLD_NAMES = dict(
    line.split("\t")
    for line in (Path(__file__).parent / "data/old_names.tsv").read_text().splitlines()
    if not line.startswith("#")
)
TODAY = {old: new for old, new in OLD_NAMES.items() if new != "!"}


def sample(path):
    """(words, value) that no default equals."""
    flag = flags()[path]
    if flag.kind == "bool":
        return ([], True) if not flag.default else (["False"], False)
    if flag.choices:
        choice = next(choice for choice in flag.choices if choice != flag.default)
        return [str(choice)], choice
    word, one = {"int": ("77", 77), "float": ("0.77", 0.77), "str": ("other", "other")}[flag.kind]
    if flag.arity == 1:
        return [word], one
    return ([word], (one,)) if flag.arity is None else ([word] * flag.arity, (one,) * flag.arity)


def expected(old):
    """(argv, path, value) of an old name; the two that negate differ."""
    path = TODAY[old]
    if path == "actor.muon.no_nesterov":
        return [f"--{old}"], "actor.muon.nesterov", False
    words, value = sample(path)
    return [f"--{old}", *words], path, value


def test_every_old_name_has_its_effect_and_one_warning():
    # One command holds them all, but for pairs of old names of one flag.
    seen, argv, effects = set(), [], {}
    for old in TODAY:
        words, path, value = expected(old)
        if path not in seen:
            argv += words
            effects[path] = value
            seen.add(path)
    parsed = parse_ppo(argv)
    read = values(parsed.config)
    assert {path: read[path] for path in effects} == effects
    assert len(parsed.warnings) == len(effects)


@pytest.mark.parametrize(
    "old", ["gamma", "generate_max_len", "max_new_tokens", "value_prefix_head", "no_muon_nesterov"]
)
def test_the_warning_names_both(old):
    words = {"no_muon_nesterov": []}.get(old, ["7"])
    found, _ = split([f"--{old}", *words])
    _, (line,), _ = translate(found, PROGRAM, lambda name: True)
    assert line == f"--{old} is the old name of " + " and ".join(f"--{new}" for new in RENAMED[old])


@pytest.mark.parametrize("name", [old for old, new in OLD_NAMES.items() if new == "!"])
def test_a_flag_that_is_gone_is_refused_with_a_hint(name):
    with pytest.raises(ConfigError) as caught:
        parse_ppo([f"--{name}", "1"])
    (line,) = caught.value.problems
    assert line.startswith(f"--{name} is no flag of train_ppo_ray: ")


def test_old_switches_set_a_value():
    switches = {
        "bf16": ("ds.param_dtype", "bf16"),
        "flash_attn": ("ds.attn_implementation", "flash_attention_2"),
        "use_global_token_level_loss": ("actor.loss_aggregation", "token"),
        "use_dual_policy_loss": ("actor.dual_clip", 3.0),
        "use_adv_mask_after": ("algo.bad_examples.advantage_mask", "after"),
    }
    parsed = parse_ppo([f"--{old}" for old in switches])
    read = values(parsed.config)
    assert {path: read[path] for path, _ in switches.values()} == dict(switches.values())
    assert parsed.explicit == {path for path, _ in switches.values()}
    assert len(parsed.warnings) == len(switches)


def test_an_old_switch_cannot_be_off():
    with pytest.raises(ConfigError, match=r"--bf16 'False'.*use --ds.param_dtype"):
        parse_ppo(["--bf16", "False"])


def test_balancing_is_always_on():
    parsed = parse_ppo(["--use_seq_balancing"])
    assert parsed.explicit == frozenset()
    assert "no longer needed" in parsed.warnings[0]


def test_prompt_and_response_budget_add_up():
    parsed = parse_ppo(["--prompt_max_len", "1024", "--generate_max_len", "8192"])
    assert parsed.config.data.max_len == 9216
    assert parsed.config.rollout.max_new_tokens == 8192
    assert len(parsed.warnings) == 2


def test_a_prompt_budget_alone_says_what_to_use():
    with pytest.raises(ConfigError, match=r"use --data\.max_len"):
        parse_ppo(["--prompt_max_len", "1024"])


@pytest.mark.parametrize("length", ["-1", "\u00b2", "9" * 5000])
def test_a_prompt_length_that_is_no_plain_number_is_one_line(length):
    with pytest.raises(ConfigError) as caught:
        parse_ppo(["--prompt_max_len", length, "--generate_max_len", "5"])
    (line,) = caught.value.problems
    assert "needs a whole number" in line
    assert len(line) < 400


def test_old_and_new_with_different_values_is_an_error():
    with pytest.raises(ConfigError, match=r"different values: --pretrain 'a' and --actor.model_name_or_path 'b'"):
        parse_ppo(["--pretrain", "a", "--actor.model_name_or_path", "b"])
    with pytest.raises(ConfigError, match=r"--data\.max_len is given twice"):
        parse_ppo(["--prompt_max_len", "8", "--max_new_tokens", "8", "--data.max_len", "17"])
    with pytest.raises(ConfigError, match=r"--ds\.param_dtype is given twice"):
        parse_ppo(["--bf16", "--param_dtype", "fp16"])


SHARED = ["adam_betas", "adam_eps", "l2", "lr_scheduler", "lr_warmup_ratio", "min_lr_ratio", "max_norm"]
MUON = ["muon_lr", "muon_momentum", "muon_ns_steps", "muon_nesterov", "no_muon_nesterov"]


@pytest.mark.parametrize("old", SHARED + MUON)
def test_an_old_optimiser_flag_is_the_actors_and_the_critics(old):
    words, path, value = expected(old)
    muon = ["--actor.optim", "muon", "--critic.optim", "muon"] if old in MUON else []
    parsed = parse_ppo([*words, *muon])
    read = values(parsed.config)
    twin = path.replace("actor.", "critic.", 1)
    assert (read[path], read[twin]) == (value, value)
    assert {path, twin} <= parsed.explicit
    assert len(parsed.warnings) == 1


def test_the_half_of_an_old_optimiser_flag_that_has_no_effect_is_not_given():
    line = ["--l2", "0.1", "--max_norm", "2", "--algo.advantage.estimator", "rloo"]
    parsed = parse_ppo(line)
    assert parsed.explicit == {"actor.adam.weight_decay", "actor.max_norm", "algo.advantage.estimator"}
    assert values(parsed.config)["critic.max_norm"] == 1.0
    assert "critic.muon.lr" not in parse_ppo(["--muon_lr", "0.1", "--actor.optim", "muon"]).explicit
    assert "critic.max_norm" in parse_ppo([*line, "--critic.max_norm", "2"]).explicit  # asked for by name


def test_an_old_optimiser_flag_and_a_new_one_must_agree():
    with pytest.raises(ConfigError) as caught:
        parse_ppo(["--critic.adam.weight_decay", "0.2", "--l2", "0.1"])
    (line,) = caught.value.problems
    assert line.startswith("--critic.adam.weight_decay is given twice with different values: ")
    with pytest.raises(ConfigError) as caught:
        parse_ppo(["--l2", "much"])
    assert len(caught.value.problems) == 1
    parsed = parse_ppo(["--l2", "0.1", "--actor.adam.weight_decay", "0.1"])
    assert values(parsed.config)["critic.adam.weight_decay"] == 0.1


def test_old_and_new_with_the_same_value_pass():
    parsed = parse_ppo(["--pretrain", "a", "--actor.model_name_or_path", "a"])
    assert parsed.config.actor.model_name_or_path == "a"


def test_seed_000_mixes_both_styles():
    argv = ["--remote_rm_url", "http://localhost:8000/reward/score", "--algo.dynamic_filtering_enable"]
    config = parse_ppo(argv).config
    assert config.reward.remote_url == "http://localhost:8000/reward/score"
    assert config.algo.dynamic_filtering_enable is True


def test_the_tables_do_not_overlap_and_lead_to_flags():
    tables = [set(RENAMED), set(SWITCHES), set(ALWAYS), set(REMOVED)]
    assert sum(map(len, tables)) == len(set().union(*tables))
    targets = {path for paths in RENAMED.values() for path in paths} | {path for path, _ in SWITCHES.values()}
    targets -= {"actor.muon.no_nesterov", "critic.muon.no_nesterov"}
    assert targets <= set(flags())
    assert not set(flags()) & set().union(*tables)

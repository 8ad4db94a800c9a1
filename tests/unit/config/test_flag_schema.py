"""The schema holds every documented flag, with its documented default or a named reason for another one."""

from pathlib import Path

import pytest

from openrlhf.config.model import CriticConfig
from openrlhf.config.ppo import PPOConfig
from openrlhf.config.schema import flags, flatten, given, nest

DOCUMENTED = [
    line.split("\t")
    for line in (Path(__file__).parent / "data/documented_flags.tsv").read_text().splitlines()
    if not line.startswith("#")
]
# Ours come from the device or the machine (DESIGN, Decisions), and packing is on.
OTHER_DEFAULTS = {
    "actor.num_gpus_per_node": None,
    "critic.num_gpus_per_node": None,
    "ref.num_gpus_per_node": None,
    "reward.num_gpus_per_node": None,
    "vllm.sync_backend": None,
    "ds.attn_implementation": None,
    "ds.param_dtype": None,
    "ds.packing_samples": True,
}
# The documented negation of actor.muon.nesterov, not a field.
NEGATIONS = {"actor.muon.no_nesterov", "critic.muon.no_nesterov"}


def _documented_value(text: str) -> object:
    if text in ("off", "True", "None"):
        return {"off": False, "True": True, "None": None}[text]
    if text == '""':
        return ""
    if text == "all-linear":
        return ("all-linear",)
    if text[0] in "([":
        return tuple(float(part) for part in text[1:-1].split(","))
    try:
        return float(text)
    except ValueError:
        return text


def test_all_164_documented_flags_exist():
    assert len(DOCUMENTED) == 164
    assert {path for path, _ in DOCUMENTED} - NEGATIONS <= set(flags())


@pytest.mark.parametrize(("path", "default"), [row for row in DOCUMENTED if row[0] not in NEGATIONS])
def test_documented_default(path, default):
    expected = OTHER_DEFAULTS[path] if path in OTHER_DEFAULTS else _documented_value(default)
    assert flags()[path].default == expected


def test_our_own_flags():
    """Beside those of `env`, a section of ours."""
    ours = set(flags()) - {path for path, _ in DOCUMENTED}
    assert ours == {
        "ref.model_name_or_path",
        "actor.loss_aggregation",
        "reward.ungraded",
        "reward.model_weights",
        "reward.abort_after",
        "reward.max_concurrent",
        "vllm.max_num_seqs",
        "vllm.dtype",
        "vllm.cpu_kv_cache_gb",
        "eval.at_start",
        "eval.top_p",
        "eval.max_samples",
        "algo.bad_examples.filter_enable",
        "algo.bad_examples.loss_mask_enable",
        "algo.bad_examples.advantage_mask",
        "train.max_steps",
        "train.max_staleness",
        "ckpt.overwrite",
        "logger.num_rollouts_stored",
        "ds.share_prompts",
        "cluster.start_timeout",
        "cluster.rollout_timeout",
        "cluster.train_timeout",
        "cluster.sync_timeout",
        "cluster.collective_timeout",
        "vllm.max_restarts",
        "train.mask_stale_tokens",
        "device",
    } | {path for path in flags() if path.startswith("env.")}


def test_every_flag_has_a_help_text():
    assert [flag.path for flag in flags().values() if not flag.help.endswith(".")] == []


def test_a_partly_given_critic_keeps_its_own_learning_rate():
    # The critic's default is 9e-6, the actor's 1e-6: giving eps alone must not bring the actor's.
    assert CriticConfig.model_validate({"adam": {"eps": 1e-6}}).adam.lr == 9e-6


def test_flatten_and_nest_are_inverse():
    tree = {"a": {"b": {"c": 1}, "d": (1, 2)}, "e": None}
    assert flatten(tree) == {"a.b.c": 1, "a.d": (1, 2), "e": None}
    assert nest(flatten(tree)) == tree


def test_given_tells_a_given_default_from_one_left_alone():
    assert given(PPOConfig.model_validate({"train": {"seed": 42}})) == {"train.seed"}
    assert given(PPOConfig()) == frozenset()

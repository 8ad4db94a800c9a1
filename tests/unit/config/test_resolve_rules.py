"""Rules between flags, ranges of single flags, planned flags, and flags without effect."""

import pytest

from openrlhf.config.bounds import BOUNDS
from openrlhf.config.errors import ConfigError
from openrlhf.config.evaluate import EvaluateConfig
from openrlhf.config.idle import IDLE
from openrlhf.config.machine import Machine
from openrlhf.config.planned import PLANNED, feature_of
from openrlhf.config.ppo import PPOConfig
from openrlhf.config.resolve import resolve
from openrlhf.config.schema import flags, nest, sections, values

GAE = {"algo.advantage.estimator": "gae"}
REWARD_MODELS = {"reward.model_name_or_path": "owner/one, owner/two", "reward.remote_url": None}


def test_processes_without_a_micro_batch_are_named_and_allowed(resolved):
    # 16 prompts x 8 samples = 128; micro-batches of 32 give 4 for 8 processes, 16 would give 8.
    warnings = resolved({"rollout.micro_batch_size": 32, "actor.num_gpus_per_node": 8}).warnings
    assert any("so some wait; better at most 16" in warning for warning in warnings)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        # 16 prompts x 8 samples = 128 samples per rollout.
        ({"train.seed": 2**32}, "must be from 0 to 4294967295"),
        ({"train.seed": -1}, "must be from 0 to 4294967295"),
        ({"train.batch_size": 129}, "a rollout has only 128 samples"),
        ({"train.batch_size": 4, "actor.num_gpus_per_node": 8}, "fewer samples than the actor's 8 processes"),
        # 128 // 32 = 4 micro-batches for 8 processes; 16 would do.
        ({"rollout.max_new_tokens": 2048}, "must be below --data.max_len 2048"),
        ({"rollout.vllm_generate_batch_size": 32}, "oversampling, which needs --train.async_enable"),
        ({"rollout.vllm_generate_batch_size": 8}, "leave it out"),
        ({"data.input_template": "{} and {}"}, "exactly one {}"),
        ({"data.input_template": "{} {x"}, "exactly one {}"),
        ({"algo.kl.init_coef": 0.0, "algo.kl.target": 0.1}, "start above 0"),
        ({"logger.wandb.key": "secret"}, "wandb is not installed"),
        ({"actor.policy_loss_type": "gspo", "actor.loss_aggregation": "token"}, "takes sequence; leave it out"),
        ({"actor.policy_loss_type": "gspo", "actor.loss_aggregation": "constant"}, "takes sequence; leave it out"),
        ({"reward.overlong_buffer_len": 600, "rollout.max_new_tokens": 512}, "--rollout.max_new_tokens 512; use at"),
        ({"reward.overlong_buffer_len": 3000}, "more than --data.max_len 2048"),
        ({"env.terms.overlong_enable": True, "rollout.max_new_tokens": 511}, "more than --rollout.max_new_tokens 511"),
        ({"env.terms.overlong_enable": True, "data.max_len": 256}, "more than --data.max_len 256"),
        ({"reward.stop_properly_penalty_coef": 1.5}, "at most 1"),
        ({"actor.optim": "muon", "ds.adam_offload": True}, "leave --ds.adam_offload out"),
        ({"actor.optim": "muon", "ds.zero_stage": 3}, "--ds.zero_stage 2 or lower"),
        ({"actor.optim": "muon", "actor.muon.ns_steps": 6}, "always takes 5"),
        ({"actor.optim": "muon", "actor.muon.nesterov": False}, "always uses Nesterov"),
        (GAE | {"critic.optim": "muon", "ds.zero_stage": 3}, "--critic.optim muon: not with --ds.zero_stage 3"),
        (GAE | {"critic.value_clip": 0.0}, "must be over 0"),
        (GAE | {"critic.freezing_steps": -2}, "must be -1 (none) or more"),
        (GAE | {"algo.advantage.lambd": 1.5}, "must be from 0 to 1"),
        (GAE | {"critic.model_name_or_path": "./none"}, "no such folder"),
        (REWARD_MODELS | {"reward.model_weights": (1.0,)}, "1 weights for 2 reward models"),
        (REWARD_MODELS | {"reward.remote_url": "reward.py"}, "leave one of them out"),
        (REWARD_MODELS | {"algo.dynamic_filtering_enable": True}, "needs the scores of --reward.remote_url"),
        ({"reward.model_name_or_path": "./none", "reward.remote_url": None}, "no such folder"),
        ({"vllm.num_engines": 0}, "every rollout needs a vLLM engine"),
        ({"actor.dual_clip": 1.0}, "over 1"),
    ],
)
def test_a_contradiction_is_one_line(problems, changes, says):
    (line,) = problems(changes)
    assert line.startswith("--")
    assert says in line


def test_tensorboard_must_be_installed(problems):
    (line,) = problems({"logger.tensorboard_dir": "tb"}, packages=())
    assert "pip install tensorboard" in line


NUCLEUS = {"rollout.top_p": 0.9}
CORRECTED = NUCLEUS | {"algo.advantage.is_correction_enable": True}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({}, None),
        ({"algo.advantage.is_correction_enable": True}, None),
        (NUCLEUS, "train/vllm_kl is above 0"),
        (CORRECTED, "weights below 1"),
        (CORRECTED | {"algo.advantage.is_correction_type": "seq-mask-tis"}, "weights below 1"),
        (NUCLEUS | {"actor.policy_loss_type": "gspo"}, "train/vllm_kl is above 0"),
    ],
)
def test_sampling_from_a_nucleus_biases_the_engines_logprobs(resolved, changes, says):
    lines = [line for line in resolved(changes).warnings if line.startswith("--rollout.top_p 0.9")]
    assert len(lines) == (says is not None)
    assert all(says in line for line in lines)


@pytest.mark.parametrize(
    ("changes", "mode"),
    [
        ({"algo.advantage.is_correction_type": "seq-tis"}, "seq-tis"),
        ({"actor.policy_loss_type": "gspo"}, "gspo"),
    ],
)
def test_a_nucleus_is_refused_where_a_whole_response_has_one_ratio(problems, changes, mode):
    (line,) = problems(CORRECTED | changes)
    assert line.startswith("--rollout.top_p 0.9")
    assert f"with {mode} would" in line


@pytest.mark.parametrize("estimator", ["rloo", "reinforce_baseline", "group_norm", "dr_grpo"])
def test_grouped_estimators_need_two_samples(problems, estimator):
    (line,) = problems(
        {"algo.advantage.estimator": estimator, "rollout.n_samples_per_prompt": 1, "train.batch_size": 16}
    )
    assert "--rollout.n_samples_per_prompt 2 or more" in line


def test_filtering_needs_two_samples(problems):
    changes = {"algo.advantage.estimator": "reinforce", "rollout.n_samples_per_prompt": 1, "train.batch_size": 16}
    (line,) = problems(changes | {"algo.dynamic_filtering_enable": True})
    assert line.startswith("--algo.dynamic_filtering_enable")
    assert "2 or more, not 1" in line


def test_gspo_is_averaged_per_sequence(resolved):
    resolution = resolved({"actor.policy_loss_type": "gspo"})
    assert resolution.config.actor.loss_aggregation == "sequence"
    assert resolution.warnings == ()


@pytest.mark.parametrize(
    ("changes", "model"),
    [
        (GAE, "model"),  # the actor's
        (GAE | {"reward.model_name_or_path": "owner/one,owner/two", "reward.remote_url": None}, "owner/one"),
        (GAE | {"critic.model_name_or_path": "owner/critic"}, "owner/critic"),
    ],
)
def test_a_critic_starts_from_what_it_is_told_else_the_first_reward_model_else_the_actor(
    resolved, workplace, changes, model
):
    resolution = resolved(changes)
    expected = str(workplace / "model") if model == "model" else model
    assert resolution.config.critic.model_name_or_path == expected
    assert resolution.config.critic.num_gpus_per_node == 1
    assert resolution.warnings == ()


def test_reward_models_alone_are_a_reward_source(resolved):
    config = resolved(REWARD_MODELS | {"reward.model_weights": (1.0, 0.5)}).config
    assert config.reward.models == ("owner/one", "owner/two")
    assert config.reward.num_gpus_per_node == 1


def test_reinforce_takes_one_sample(resolved):
    changes = {"algo.advantage.estimator": "reinforce", "rollout.n_samples_per_prompt": 1, "train.batch_size": 16}
    assert resolved(changes | {"algo.advantage.gamma": 0.9}).config.algo.advantage.gamma == 0.9


def test_a_discount_is_taken_back_where_it_does_nothing(resolved):
    resolution = resolved({"algo.advantage.gamma": 0.9})
    assert resolution.config.algo.advantage.gamma == 1.0
    assert len(resolution.warnings) == 1


def test_defaults_from_other_flags(resolved):
    config = resolved(
        {"actor.eps_clip": 0.3, "train.dynamic_batch_enable": True, "train.max_tokens_per_gpu": 4096}
    ).config
    assert config.actor.eps_clip_low_high == (0.3, 0.3)
    assert config.rollout.max_tokens_per_gpu == 4096
    assert config.rollout.vllm_generate_batch_size == 16


# (changes, the flag that the one warning names)
WARNED = [
    ({"actor.optim": "muon", "actor.max_norm": 0.5}, "actor.max_norm"),
    (GAE | {"critic.optim": "muon", "critic.max_norm": 0.5}, "critic.max_norm"),
    ({"ckpt.max_num": 5}, "ckpt.max_num"),
    ({"train.max_staleness": 2}, "train.max_staleness"),
    ({"ckpt.path": "saves"}, "ckpt.path"),
    ({"train.batch_size": 100}, "train.batch_size"),  # 128 = 100 + 28
    ({"train.micro_batch_size": 200}, "train.micro_batch_size"),
    (
        {"train.dynamic_batch_enable": True, "data.max_len": 8192, "train.max_tokens_per_gpu": 4096},
        "train.max_tokens_per_gpu",
    ),
    ({"train.dynamic_batch_enable": True, "ds.packing_samples": False}, "ds.no-packing_samples"),
    ({"train.dynamic_batch_enable": True, "train.micro_batch_size": 4}, "train.micro_batch_size"),
    ({"train.max_tokens_per_gpu": 4096}, "train.max_tokens_per_gpu"),
    ({"rollout.max_tokens_per_gpu": 4096}, "rollout.max_tokens_per_gpu"),
    ({"data.input_template": "Q:"}, "data.input_template"),
    ({"data.input_template": "Q: {}\\nA:"}, "data.input_template"),
    ({"data.input_template": "Q: {}", "data.apply_chat_template": True}, "data.input_template"),
    ({"data.dataloader_num_workers": 2}, "data.dataloader_num_workers"),
    ({"algo.kl.use_loss": True}, "algo.kl.estimator"),  # k1, the default
    ({"algo.kl.estimator": "k3"}, "algo.kl.estimator"),
    ({"algo.kl.horizon": 10000}, "algo.kl.horizon"),
    ({"algo.kl.init_coef": 0.0, "algo.kl.use_loss": True}, "algo.kl.use_loss"),
    ({"algo.kl.init_coef": 0.0, "ref.model_name_or_path": "owner/ref"}, "ref.model_name_or_path"),
    ({"algo.advantage.is_correction_type": "tis"}, "algo.advantage.is_correction_type"),
    ({"algo.advantage.is_correction_threshold": (0.5, 2.0)}, "algo.advantage.is_correction_threshold"),
    ({"algo.advantage.estimator": "rloo", "algo.advantage.no_std_norm": True}, "algo.advantage.no_std_norm"),
    ({"actor.eps_clip": 0.2, "actor.eps_clip_low_high": (0.2, 0.3)}, "actor.eps_clip"),
    ({"actor.min_lr_ratio": 0.1, "actor.lr_scheduler": "linear"}, "actor.min_lr_ratio"),
    ({"actor.lr_warmup_ratio": 0.1, "actor.lr_scheduler": "constant"}, "actor.lr_warmup_ratio"),
    ({"actor.gradient_checkpointing_reentrant": True}, "actor.gradient_checkpointing_reentrant"),
    ({"train.colocate_all": True}, "train.colocate_all"),
    ({"train.colocate_actor_ref": True}, "train.colocate_actor_ref"),
    ({"ds.zero_stage": 0, "ds.overlap_comm": True}, "ds.overlap_comm"),
    ({"critic.adam.lr": 9e-6}, "critic.adam.lr"),
    ({"algo.advantage.lambd": 0.9}, "algo.advantage.lambd"),
    (GAE | {"critic.muon.lr": 0.1}, "critic.muon.lr"),
    (GAE | {"critic.min_lr_ratio": 0.1, "critic.lr_scheduler": "linear"}, "critic.min_lr_ratio"),
    (GAE | {"critic.lr_warmup_ratio": 0.1, "critic.lr_scheduler": "constant"}, "critic.lr_warmup_ratio"),
    ({"actor.muon.momentum": 0.9}, "actor.muon.momentum"),
    ({"reward.offload": True}, "reward.offload"),
    ({"reward.remote_url": "http://127.0.0.1:9", "reward.max_concurrent": 4}, "reward.max_concurrent"),
    ({"ds.value_head_prefix": "head"}, "ds.value_head_prefix"),
    (GAE | {"train.colocate_critic_reward": True}, "train.colocate_critic_reward"),
    (
        {
            "actor.policy_loss_type": "gspo",
            "algo.advantage.is_correction_enable": True,
            "algo.advantage.is_correction_type": "icepop",
        },
        "algo.advantage.is_correction_type",
    ),
    ({"train.ema_beta": 0.9}, "train.ema_beta"),
    ({"reward.overlong_penalty_factor": 2.0}, "reward.overlong_penalty_factor"),
    ({"algo.dynamic_filtering_range": (0.1, 0.9)}, "algo.dynamic_filtering_range"),
    ({"algo.dynamic_filtering_enable": True, "reward.ungraded": "zero"}, "reward.ungraded"),
    ({"reward.ungraded": "abort", "reward.abort_after": 8}, "reward.abort_after"),
    ({"train.mask_stale_tokens": True}, "train.mask_stale_tokens"),
    ({"actor.policy_loss_type": "cispo", "actor.dual_clip": 3.0}, "actor.dual_clip"),
    ({"eval.temperature": 0.6}, "eval.temperature"),
    ({"eval.dataset": "prompts.jsonl"}, "eval.dataset"),
    ({"logger.wandb.project": "p"}, "logger.wandb.project"),
    ({"vllm.gpu_memory_utilization": 0.5}, "vllm.gpu_memory_utilization"),
    ({"env.code.port": 10003}, "env.code.port"),
    ({"env.code.compile_timeout": 5.0}, "env.code.compile_timeout"),
    ({"env.server": "http://h", "env.code.port": 10003, "env.code.sandbox": "local"}, "env.code.sandbox"),
    ({"env.server": "http://h", "env.code.port": 10003, "env.proxy_file": "p.txt"}, "env.proxy_file"),
    ({"env.verifier.math_port": 10004}, "env.verifier.math_port"),
    ({"env.verifier.math_timeout": 3.0}, "env.verifier.math_timeout"),
    ({"env.verifier.judge_port": 10005}, "env.verifier.judge_port"),
    ({"env.verifier.max_retries": 2}, "env.verifier.max_retries"),
    ({"algo.bad_examples.loss_mask_enable": True}, "algo.bad_examples.loss_mask_enable"),
    (
        {
            "algo.bad_examples.filter_enable": True,
            "algo.bad_examples.loss_mask_enable": True,
            "algo.bad_examples.advantage_mask": "skip",
        },
        "algo.bad_examples.advantage_mask",
    ),
    ({"actor.freeze_visual_encoder": True}, "actor.freeze_visual_encoder"),
    ({"data.image_key": "pictures"}, "data.image_key"),
    ({"local_rank": 0}, "local_rank"),
    ({"data.disable_fast_tokenizer": True}, "data.disable_fast_tokenizer"),
    ({"ref.offload": True}, "ref.offload"),
    ({"reward.remote_url": None, "reward.model_name_or_path": "model", "reward.offload": True}, "reward.offload"),
]


@pytest.mark.parametrize(("changes", "flag"), WARNED)
def test_what_does_nothing_or_surprises_is_one_warning(resolved, changes, flag):
    (line,) = resolved(changes).warnings
    assert line.startswith(f"--{flag} ") or line.startswith(f"--{flag}:")


def test_every_kind_of_idle_flag_is_tried_here():
    tried = {path for changes, _ in WARNED for path in changes} | {"vllm.cpu_kv_cache_gb"}
    assert [idle.flags for idle in IDLE if not any(path.startswith(idle.flags) for path in tried)] == []


def test_shared_and_freed_gpu_memory_is_silent_on_gpu(resolved):
    models = {"reward.remote_url": None, "reward.model_name_or_path": "model", "reward.offload": True}
    shared = {"train.colocate_critic_reward": True, "train.colocate_actor_ref": True, "ref.offload": True}
    assert resolved(GAE | models | shared, gpus=8).warnings == ()
    both = {"train.colocate_all": True, "train.colocate_actor_ref": True}
    (line,) = resolved(both, gpus=8).warnings
    assert line.startswith("--train.colocate_actor_ref True has no effect: --train.colocate_all includes it")
    assert resolved({"train.colocate_all": False, "data.disable_fast_tokenizer": False}).warnings == ()


def test_the_cpu_cache_does_nothing_on_gpu(resolved):
    (line,) = resolved({"vllm.cpu_kv_cache_gb": 2}, gpus=8).warnings
    assert line.startswith("--vllm.cpu_kv_cache_gb 2")


@pytest.mark.parametrize(
    "changes",
    [
        {"local_rank": -1, "data.dataloader_num_workers": 0, "eval.steps": -1, "algo.advantage.gamma": 1.0},
        {"algo.advantage.is_correction_enable": True, "algo.advantage.is_correction_type": "icepop"},
        {"algo.kl.use_loss": True, "algo.kl.estimator": "k2"},
        {"algo.kl.target": 0.1, "algo.kl.horizon": 100},
        {"eval.dataset": "prompts.jsonl", "eval.steps": 5, "eval.temperature": 0.0},
        {"eval.dataset": "prompts.jsonl", "eval.at_start": True},
        {"data.input_template": "Q: {}\nA: {{}}"},
        {"algo.kl.init_coef": 0.0, "ref.offload": False},
        {"ds.zpg": 1, "ds.ring_attn_size": 1, "use_ms": False},  # defaults of planned flags
        {"critic.freezing_steps": -1, "critic.save_value_network": False, "reward.offload": False},
        GAE | {"critic.freezing_steps": 3, "critic.save_value_network": True, "ds.value_head_prefix": "head"},
        GAE | {"actor.optim": "muon", "actor.muon.lr": 0.1, "critic.optim": "adam", "critic.adam.lr": 1e-5},
        {"train.enable_ema": True, "train.ema_beta": 0.9},
        {"reward.overlong_buffer_len": 128, "reward.overlong_penalty_factor": 0.5},
        {"algo.dynamic_filtering_enable": True, "algo.dynamic_filtering_range": (0.1, 0.9)},
        {"actor.policy_loss_type": "cispo", "actor.loss_aggregation": "constant"},
    ],
)
def test_what_has_its_effect_is_silent(resolved, changes):
    assert resolved(changes).warnings == ()


def test_wandb_key_from_the_environment(resolved):
    environ = {"WANDB_API_KEY": "secret"}
    packages = ("wandb",)
    asked = resolved({"logger.wandb.project": "p"}, environ=environ, packages=packages)
    assert asked.config.logger.wandb.key == "secret"
    assert asked.warnings == ()
    # A key that lies in the environment for other programs does not switch logging on.
    assert resolved(environ=environ, packages=packages).config.logger.wandb.key is None


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("train.batch_size", 0),
        ("rollout.temperature", 0.0),
        ("rollout.top_p", 0.0),
        ("rollout.top_p", 1.1),
        ("actor.adam.lr", float("nan")),
        ("actor.adam.lr", float("inf")),
        ("actor.adam.lr", -1e-6),
        ("actor.adam.betas", (0.9, 1.0)),
        ("actor.eps_clip_low_high", (0.2, float("inf"))),
        ("reward.clip_range", (1.0, -1.0)),
        ("algo.advantage.is_correction_threshold", (5.0, 0.5)),
        ("eval.steps", 0),
        ("cluster.sync_timeout", 0.0),
        ("train.max_steps", 0),
    ],
)
def test_a_value_out_of_range_names_flag_value_and_range(problems, path, value):
    (line,) = problems({path: value})
    assert line.startswith(f"--{path} ")
    assert "must be" in line


def test_a_learning_rate_of_0_passes(resolved):
    assert resolved({"actor.adam.lr": 0.0}).config.actor.adam.lr == 0.0


def test_bounds_and_planned_flags_name_flags_that_exist():
    names = set(flags()) | {path for path, _ in sections(PPOConfig)}
    assert set(BOUNDS) <= set(flags()) | set(flags(EvaluateConfig))
    assert set(PLANNED) <= names
    assert {part.rstrip(".") for idle in IDLE for part in idle.flags} <= names


def other_value(flag):
    if flag.kind == "bool":
        return not flag.default
    if flag.choices:
        return next(choice for choice in flag.choices if choice != flag.default)
    one = {"int": 7, "float": 0.25, "str": "other"}[flag.kind]
    return one if flag.arity == 1 else (one,) if flag.arity is None else tuple(one + n for n in range(flag.arity))


def test_every_planned_flag_is_refused_by_name(problems):
    planned = {path: other_value(flag) for path, flag in flags().items() if feature_of(path)}
    lines = problems(planned)
    for path in planned:
        assert any(line.startswith(f"--{path} ") and "comes with later work" in line for line in lines), path
    assert len(lines) == len(planned)


def test_what_this_slice_brings_is_not_planned():
    brought = "actor.adam.lr actor.dual_clip actor.loss_aggregation actor.entropy_coef data.prompt_dataset eval.steps "
    brought += "rollout.temperature reward.remote_url reward.clip_range reward.ungraded algo.advantage.estimator "
    brought += "algo.advantage.is_correction_enable algo.kl.target algo.kl.use_loss train.dynamic_batch_enable "
    brought += "train.colocate_all vllm.enable_sleep ds.zero_stage ds.adam_offload ds.overlap_comm ckpt.output_dir "
    brought += "ckpt.overwrite logger.wandb.key device cluster.sync_timeout ds.packing_samples ds.grad_accum_dtype"
    assert [path for path in brought.split() if feature_of(path)] == []


def test_all_problems_come_at_once(problems):
    lines = problems(
        {
            "actor.model_name_or_path": "./none",
            "data.prompt_dataset": "none.jsonl",
            "reward.remote_url": "none.py",
            "train.batch_size": 4096,
            "rollout.max_new_tokens": 4096,
            "ds.load_in_4bit": True,
            "ds.param_dtype": "fp16",
        }
    )
    assert len(lines) == 7


@pytest.mark.parametrize("changes", [{}, {"train.dynamic_batch_enable": True, "algo.kl.init_coef": 0.0}])
@pytest.mark.parametrize("gpus", [0, 8])
def test_resolving_twice_changes_nothing(resolved, changes, gpus):
    first = resolved(changes, gpus=gpus)
    again = resolved(
        {path: value for path, value in values(first.config).items() if value != flags()[path].default}, gpus
    )
    assert again.config == first.config
    assert again.warnings == ()


def test_the_given_config_is_not_changed(resolved):
    config = PPOConfig.model_validate(nest({"device": "auto"}))
    before = config.model_dump()
    with pytest.raises(ConfigError, match="missing"):
        resolve(config, {}, Machine())
    assert config.model_dump() == before


def test_asynchronous_training_takes_more_prompts_at_a_time(resolved):
    changes = {"train.async_enable": True, "rollout.vllm_generate_batch_size": 32}
    assert resolved(changes).config.rollout.vllm_generate_batch_size == 32


def test_asynchronous_training_is_not_repeatable_and_its_engines_never_sleep(problems, resolved):
    (line,) = problems({"train.async_enable": True, "train.full_determinism_enable": True})
    assert line.startswith("--train.full_determinism_enable with --train.async_enable")
    assert not resolved({"train.async_enable": True, "vllm.enable_sleep": True}).config.vllm.enable_sleep


def test_engines_that_never_rest_share_no_gpu(problems):
    (line,) = problems({"train.async_enable": True, "train.colocate_all": True}, gpus=8)
    assert "--train.colocate_actor_ref" in line


def test_the_states_of_muon_stay_on_the_gpu(problems):
    changes = {"actor.optim": "muon", "ds.enable_sleep": True, "train.colocate_all": True}
    (line,) = problems(changes, gpus=8)
    assert line.startswith("--ds.enable_sleep")


def test_a_run_that_is_to_be_repeated_reuses_no_prefix(resolved):
    """What lies in a cache is lost with its engine, and keys from there differ from new ones in their last bits."""
    caching = {"vllm.enable_prefix_caching": True}
    found = resolved(caching | {"train.full_determinism_enable": True})
    assert not found.config.vllm.enable_prefix_caching
    assert any(line.startswith("--vllm.enable_prefix_caching is switched off") for line in found.warnings)
    assert resolved(caching).config.vllm.enable_prefix_caching


def test_partial_rollouts_are_asynchronous_and_reuse_no_prefix(problems, resolved):
    partial = {"train.partial_rollout_enable": True}
    (line,) = problems(partial)
    assert "needs --train.async_enable" in line
    assert resolved(partial | {"train.async_enable": True}).config.train.partial_rollout_enable
    (line,) = problems(partial | {"train.async_enable": True, "vllm.enable_prefix_caching": True})
    assert line.startswith("--vllm.enable_prefix_caching")

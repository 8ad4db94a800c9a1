"""Flags that were given but have no effect in this run: one warning names each of them with the reason."""

from collections.abc import Callable

from openrlhf.config.draft import Draft
from openrlhf.config.env_rules import ENV_IDLE
from openrlhf.config.idle_flag import Idle, idle_lines, idle_reasons
from openrlhf.config.model import ActorConfig, CriticConfig
from openrlhf.config.optimiser import has_critic
from openrlhf.config.planned import feature_of
from openrlhf.config.ppo import PPOConfig

ONE_TOKENIZER = "transformers 5 has one tokenizer for each model, the fast one where there is one"

_CORRECTION = ("algo.advantage.is_correction_type", "algo.advantage.is_correction_threshold")
_BUDGETS = ("train.max_tokens_per_gpu", "rollout.max_tokens_per_gpu")
_MICRO = ("train.micro_batch_size", "rollout.micro_batch_size")
_WANDB = ("logger.wandb.org", "logger.wandb.group", "logger.wandb.project", "logger.wandb.run_name")

_COLOCATION = ("train.colocate_all", "train.colocate_actor_ref", "train.colocate_critic_reward")
_OFFLOAD = ("ref.offload", "reward.offload")
_SAVED = ("ckpt.save_hf", "ckpt.disable_ds", "ckpt.max_num", "ckpt.max_mem")
_CRITIC_ALONE = ("algo.advantage.lambd", "critic.")
_REWARD_MODEL = ("reward.model_weights", "reward.offload", "reward.num_nodes", "reward.num_gpus_per_node")


def _skips_what_is_masked(config: PPOConfig) -> bool:
    flags = config.algo.bad_examples
    return flags.filter_enable and flags.loss_mask_enable and flags.advantage_mask == "skip"


def _no_value_head(config: PPOConfig) -> bool:
    return not (has_critic(config) or config.reward.models)


def _optimiser(
    name: str, model: Callable[[PPOConfig], ActorConfig | CriticConfig | None]
) -> tuple[Idle[PPOConfig], ...]:
    """What one trained model's optimiser and schedule leave without effect; `model` gives None where it is absent."""

    def when(test: Callable[[ActorConfig | CriticConfig], bool]) -> Callable[[PPOConfig], bool]:
        def idle(config: PPOConfig) -> bool:
            present = model(config)
            return present is not None and test(present)

        return idle

    return (
        Idle((f"{name}.muon.",), when(lambda m: m.optim != "muon"), f"--{name}.optim is adam"),
        Idle((f"{name}.max_norm",), when(lambda m: m.optim == "muon"), "Muon's updates have a norm of their own"),
        Idle(
            (f"{name}.min_lr_ratio",),
            when(lambda m: m.lr_scheduler != "cosine_with_min_lr"),
            f"only --{name}.lr_scheduler cosine_with_min_lr has a lowest rate",
        ),
        Idle((f"{name}.lr_warmup_ratio",), when(lambda m: m.lr_scheduler == "constant"), "constant has no warm-up"),
    )


IDLE: tuple[Idle[PPOConfig], ...] = (
    Idle(_CRITIC_ALONE, lambda c: not has_critic(c), "only --algo.advantage.estimator gae has a critic"),
    Idle(_REWARD_MODEL, lambda c: not c.reward.models, "--reward.model_name_or_path is not set"),
    Idle(("reward.max_concurrent",), lambda c: not c.reward.is_function, "the rewards come from no Python file"),
    Idle(("ds.value_head_prefix",), _no_value_head, "this run has neither a critic nor a reward model"),
    Idle(
        ("train.colocate_critic_reward",),
        lambda c: c.train.colocate_all or not (has_critic(c) and c.reward.models),
        "--train.colocate_all includes it, and it needs both a critic and a reward model",
    ),
    *_optimiser("actor", lambda c: c.actor),
    *_optimiser("critic", lambda c: c.critic if has_critic(c) else None),
    Idle(_SAVED, lambda c: not c.ckpt.saves, "no checkpoint is saved: --ckpt.save_steps is not set"),
    Idle(
        ("ckpt.path",),
        lambda c: not (c.ckpt.saves or c.ckpt.load_enable),
        "no checkpoint is saved or loaded: --ckpt.save_steps is not set",
    ),
    Idle(
        ("train.async_queue_size", "train.max_staleness", "train.mask_stale_tokens"),
        lambda c: not c.train.async_enable,
        "--train.async_enable is off, so every sample is trained on by the policy that made it",
    ),
    Idle(("train.ema_beta",), lambda c: not c.train.enable_ema, "--train.enable_ema is off"),
    Idle(
        ("reward.overlong_penalty_factor",),
        lambda c: c.reward.overlong_buffer_len is None,
        "--reward.overlong_buffer_len is not set",
    ),
    Idle(
        ("algo.dynamic_filtering_range",),
        lambda c: not c.algo.dynamic_filtering_enable,
        "--algo.dynamic_filtering_enable is off",
    ),
    *ENV_IDLE,
    Idle(
        ("algo.bad_examples.loss_mask_enable", "algo.bad_examples.advantage_mask"),
        lambda c: not c.algo.bad_examples.filter_enable,
        "--algo.bad_examples.filter_enable is off",
    ),
    Idle(
        ("algo.bad_examples.advantage_mask",),
        _skips_what_is_masked,
        "with --algo.bad_examples.loss_mask_enable bad examples are not trained on",
    ),
    Idle(
        ("reward.ungraded",),
        lambda c: c.algo.dynamic_filtering_enable,
        "with --algo.dynamic_filtering_enable a sample without a verdict drops its group",
    ),
    Idle(
        ("reward.abort_after",),
        lambda c: c.reward.ungraded == "abort" and not c.algo.dynamic_filtering_enable,
        "--reward.ungraded abort stops at the first one",
    ),
    Idle(
        ("actor.dual_clip",),
        lambda c: c.actor.policy_loss_type == "cispo",
        "--actor.policy_loss_type cispo does not clip the loss",
    ),
    Idle(
        _CORRECTION, lambda c: not c.algo.advantage.is_correction_enable, "--algo.advantage.is_correction_enable is off"
    ),
    Idle(
        _CORRECTION,
        lambda c: c.algo.advantage.is_correction_enable and c.actor.policy_loss_type == "gspo",
        "with --actor.policy_loss_type gspo the ratio to the engine's probabilities is the correction",
    ),
    Idle(_BUDGETS, lambda c: not c.train.dynamic_batch_enable, "--train.dynamic_batch_enable is off"),
    Idle(_MICRO, lambda c: c.train.dynamic_batch_enable, "--train.dynamic_batch_enable counts tokens"),
    Idle(("ref.",), lambda c: c.algo.kl.init_coef == 0, "--algo.kl.init_coef 0 needs no reference"),
    Idle(("algo.kl.estimator", "algo.kl.use_loss"), lambda c: c.algo.kl.init_coef == 0, "--algo.kl.init_coef is 0"),
    Idle(("algo.kl.horizon",), lambda c: c.algo.kl.target is None, "--algo.kl.target is not set"),
    Idle(("actor.eps_clip",), lambda c: c.actor.eps_clip_low_high is not None, "--actor.eps_clip_low_high replaces it"),
    Idle(
        ("algo.advantage.no_std_norm",),
        lambda c: c.algo.advantage.estimator in ("rloo", "group_norm", "dr_grpo"),
        "this estimator's advantages are not normalised over the batch",
    ),
    Idle(
        ("actor.gradient_checkpointing_reentrant",),
        lambda c: not c.actor.gradient_checkpointing_enable,
        "--actor.gradient_checkpointing_enable is off",
    ),
    Idle(
        ("train.colocate_actor_ref",),
        lambda c: c.train.colocate_all or c.algo.kl.init_coef == 0,
        "--train.colocate_all includes it, and without a reference there is nothing to colocate",
    ),
    Idle(("ds.overlap_comm",), lambda c: c.ds.zero_stage == 0, "--ds.zero_stage 0 does not overlap"),
    Idle(("eval.",), lambda c: c.eval.dataset is None, "--eval.dataset is not set"),
    Idle(_WANDB, lambda c: c.logger.wandb.key is None, "--logger.wandb.key (or WANDB_API_KEY) is not set"),
    Idle(_COLOCATION, lambda c: c.device == "cpu", "on CPU there is no GPU to share"),
    Idle(_OFFLOAD, lambda c: c.device == "cpu", "on CPU the weights are in CPU memory already"),
    Idle(
        ("vllm.gpu_memory_utilization",), lambda c: c.device == "cpu", "on CPU --vllm.cpu_kv_cache_gb sets the memory"
    ),
    Idle(
        ("vllm.cpu_kv_cache_gb",), lambda c: c.device == "cuda", "on GPU --vllm.gpu_memory_utilization sets the memory"
    ),
    Idle(
        ("data.image_key", "actor.freeze_visual_encoder"),
        lambda c: c.data.max_images_per_prompt == 0,
        "--data.max_images_per_prompt is 0: prompts are text, and a vision encoder is not trained",
    ),
    Idle(("local_rank",), lambda _: True, "Ray places the processes"),
    Idle(("data.disable_fast_tokenizer",), lambda _: True, ONE_TOKENIZER),
    Idle(("data.dataloader_num_workers",), lambda _: True, "prompts are read once and kept in memory"),
)

# At these values an idle flag asks for nothing, so nobody is misled.
_HARMLESS: dict[str, object] = {
    "algo.kl.use_loss": False,
    "ref.offload": False,
    "critic.save_value_network": False,
    "critic.freezing_steps": -1,
    "reward.offload": False,
    "train.colocate_all": False,
    "train.colocate_critic_reward": False,
    "algo.advantage.no_std_norm": False,
    "actor.gradient_checkpointing_reentrant": False,
    "train.colocate_actor_ref": False,
    "ds.overlap_comm": False,
    "ckpt.save_hf": False,
    "ckpt.disable_ds": False,
    "ckpt.max_mem": float("inf"),
    "eval.steps": -1,
    "eval.at_start": False,
    "train.mask_stale_tokens": False,
    "actor.freeze_visual_encoder": False,
    "data.image_key": "images",
    "local_rank": -1,
    "data.disable_fast_tokenizer": False,
    "data.dataloader_num_workers": 0,
}


def warn_idle(draft: Draft, config: PPOConfig) -> None:
    """Look at the config as it was given (`config`), on the device that was resolved."""
    draft.warnings += idle_lines(idle_flags(config), config, draft.given)


def idle_flags(config: PPOConfig) -> dict[str, str]:
    """The flags whose values ask for something that this run does not do, each with the first reason."""
    reasons = idle_reasons(IDLE, config, _HARMLESS)
    return {path: reason for path, reason in reasons.items() if not feature_of(path)}

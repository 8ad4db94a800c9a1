"""Flags that later work brings. Their defaults pass; any other value is refused by name.

Delete a line here when the feature works. An entry that names a section stands for all flags in it.
"""

from openrlhf.config.ppo import PPOConfig
from openrlhf.config.schema import flags, shown, values

_AGENTS = "agents and multi-turn environments"
_ASYNC = "asynchronous training"
_BAD_EXAMPLES = "filters of bad examples"
_CHECKPOINTS = "checkpoints and resuming"
_CRITIC = "the critic"
_DEEPSPEED = "this DeepSpeed feature"
_FILTERING = "dynamic filtering"
_LENGTH = "length penalties"
_LORA = "LoRA"
_LOSSES = "this form of the policy loss"
_MUON = "the Muon optimiser"
_REWARD_MODEL = "trained reward models"
_RING = "ring attention"
_VLM = "vision-language models"

PLANNED: dict[str, str] = {
    "actor.optim": _MUON,
    "actor.muon": _MUON,
    "actor.policy_loss_type": _LOSSES,
    "actor.aux_loss_coef": "the balancing loss of mixture-of-experts models",
    "actor.freeze_visual_encoder": _VLM,
    "critic": _CRITIC,
    "train.colocate_critic_reward": _CRITIC,
    "algo.advantage.lambd": _CRITIC,
    "reward.model_name_or_path": _REWARD_MODEL,
    "reward.num_nodes": _REWARD_MODEL,
    "reward.num_gpus_per_node": _REWARD_MODEL,
    "reward.offload": _REWARD_MODEL,
    "ds.value_head_prefix": _REWARD_MODEL,
    "reward.normalize_enable": "running normalisation of rewards",
    "reward.abort_after": "the abort threshold of ungraded samples",
    "reward.overlong_buffer_len": _LENGTH,
    "reward.overlong_penalty_factor": _LENGTH,
    "reward.stop_properly_penalty_coef": _LENGTH,
    "ref.offload": "offloading of the reference",
    "vllm.sync_with_ray": "weight sync over Ray's collective groups",
    "algo.dynamic_filtering_enable": _FILTERING,
    "algo.dynamic_filtering_range": _FILTERING,
    "algo.bad_examples": _BAD_EXAMPLES,
    "train.agent_func_path": _AGENTS,
    "train.async_enable": _ASYNC,
    "train.async_queue_size": _ASYNC,
    "train.partial_rollout_enable": _ASYNC,
    "train.max_staleness": _ASYNC,
    "train.enable_ema": "the moving average of weights",
    "train.ema_beta": "the moving average of weights",
    "ckpt.path": _CHECKPOINTS,
    "ckpt.save_steps": _CHECKPOINTS,
    "ckpt.save_hf": _CHECKPOINTS,
    "ckpt.disable_ds": _CHECKPOINTS,
    "ckpt.max_num": _CHECKPOINTS,
    "ckpt.max_mem": _CHECKPOINTS,
    "ckpt.load_enable": _CHECKPOINTS,
    "ckpt.best_metric_key": _CHECKPOINTS,
    "ds.deepcompile": _DEEPSPEED,
    "ds.zpg": _DEEPSPEED,
    "ds.tensor_parallel_size": _DEEPSPEED,
    "ds.use_universal_ckpt": _CHECKPOINTS,
    "ds.use_liger_kernel": "Liger kernels",
    "ds.load_in_4bit": "4-bit loading",
    "ds.lora": _LORA,
    "ds.ring_attn_size": _RING,
    "ds.ring_attn_head_stride": _RING,
    "data.image_key": _VLM,
    "data.max_images_per_prompt": _VLM,
    "use_ms": "ModelScope",
}

# Flags that exist, with one value that does not yet.
PLANNED_VALUES: dict[tuple[str, str], str] = {
    ("algo.advantage.estimator", "gae"): (
        "needs a critic, which comes with later work; choose --algo.advantage.estimator reinforce_baseline, "
        "reinforce, rloo, group_norm or dr_grpo"
    ),
    ("actor.loss_aggregation", "constant"): "comes with later work; use token or sequence",
}


def feature_of(path: str) -> str | None:
    """The later feature that a flag belongs to, or None where the flag works."""
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        feature = PLANNED.get(".".join(parts[:length]))
        if feature is not None:
            return feature
    return None


def refused(config: PPOConfig) -> list[str]:
    """One line for each planned flag that is not at its default, and each planned value that is chosen."""
    problems = []
    for path, value in values(config).items():
        feature = feature_of(path)
        default = flags()[path].default
        if feature is not None and value != default:
            line = (
                f"--{path} {shown(value)}: comes with later work ({feature}); leave it out (default {shown(default)})"
            )
            problems.append(line)
        if (path, value) in PLANNED_VALUES:
            problems.append(f"--{path} {value} {PLANNED_VALUES[path, value]}")
    return problems

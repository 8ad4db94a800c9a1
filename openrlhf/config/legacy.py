"""Flags of older versions: translated with one warning line each, or refused with what to use instead.

The old names were flat (`--actor_learning_rate`); today the path of a field is its flag (`--actor.adam.lr`).
"""

import re
from collections.abc import Callable, Sequence

from openrlhf.config.check_words import brief, whole_number
from openrlhf.config.tokens import Given

_RENAMED: dict[str, str] = {
    # models
    "pretrain": "actor.model_name_or_path",
    "reward_pretrain": "reward.model_name_or_path",
    "ref_pretrain": "ref.model_name_or_path",
    "critic_pretrain": "critic.model_name_or_path",
    "remote_rm_url": "reward.remote_url",
    "attn_implementation": "ds.attn_implementation",
    "use_liger_kernel": "ds.use_liger_kernel",
    "load_in_4bit": "ds.load_in_4bit",
    "gradient_checkpointing": "actor.gradient_checkpointing_enable",
    "gradient_checkpointing_use_reentrant": "actor.gradient_checkpointing_reentrant",
    "freeze_visual_encoder": "actor.freeze_visual_encoder",
    "lora_rank": "ds.lora.rank",
    "lora_alpha": "ds.lora.alpha",
    "lora_dropout": "ds.lora.dropout",
    "target_modules": "ds.lora.target_modules",
    "value_head_prefix": "ds.value_head_prefix",
    "value_prefix_head": "ds.value_head_prefix",
    # placement
    "actor_num_nodes": "actor.num_nodes",
    "actor_num_gpus_per_node": "actor.num_gpus_per_node",
    "critic_num_nodes": "critic.num_nodes",
    "critic_num_gpus_per_node": "critic.num_gpus_per_node",
    "ref_num_nodes": "ref.num_nodes",
    "ref_num_gpus_per_node": "ref.num_gpus_per_node",
    "reward_num_nodes": "reward.num_nodes",
    "reward_num_gpus_per_node": "reward.num_gpus_per_node",
    "colocate_actor_ref": "train.colocate_actor_ref",
    "colocate_critic_reward": "train.colocate_critic_reward",
    "colocate_all_models": "train.colocate_all",
    # vLLM and DeepSpeed
    "vllm_num_engines": "vllm.num_engines",
    "vllm_tensor_parallel_size": "vllm.tensor_parallel_size",
    "vllm_sync_backend": "vllm.sync_backend",
    "vllm_sync_with_ray": "vllm.sync_with_ray",
    "vllm_gpu_memory_utilization": "vllm.gpu_memory_utilization",
    "enforce_eager": "vllm.enforce_eager",
    "enable_prefix_caching": "vllm.enable_prefix_caching",
    "vllm_enable_sleep": "vllm.enable_sleep",
    "deepspeed_enable_sleep": "ds.enable_sleep",
    "zero_stage": "ds.zero_stage",
    "param_dtype": "ds.param_dtype",
    "adam_offload": "ds.adam_offload",
    "zpg": "ds.zpg",
    "overlap_comm": "ds.overlap_comm",
    "grad_accum_dtype": "ds.grad_accum_dtype",
    "deepcompile": "ds.deepcompile",
    "use_universal_ckpt": "ds.use_universal_ckpt",
    "ds_tensor_parallel_size": "ds.tensor_parallel_size",
    "ring_attn_size": "ds.ring_attn_size",
    "ring_head_stride": "ds.ring_attn_head_stride",
    "packing_samples": "ds.packing_samples",
    # rollout
    "temperature": "rollout.temperature",
    "top_p": "rollout.top_p",
    "max_new_tokens": "rollout.max_new_tokens",
    "generate_max_len": "rollout.max_new_tokens",
    "rollout_batch_size": "rollout.batch_size",
    "micro_rollout_batch_size": "rollout.micro_batch_size",
    "n_samples_per_prompt": "rollout.n_samples_per_prompt",
    "vllm_generate_batch_size": "rollout.vllm_generate_batch_size",
    "rollout_max_tokens_per_gpu": "rollout.max_tokens_per_gpu",
    # data
    "prompt_data": "data.prompt_dataset",
    "prompt_data_probs": "data.prompt_probs",
    "prompt_split": "data.prompt_split",
    "input_key": "data.input_key",
    "label_key": "data.label_key",
    "image_key": "data.image_key",
    "input_template": "data.input_template",
    "apply_chat_template": "data.apply_chat_template",
    "max_len": "data.max_len",
    "max_samples": "data.max_samples",
    "max_images_per_prompt": "data.max_images_per_prompt",
    "dataloader_num_workers": "data.dataloader_num_workers",
    "disable_fast_tokenizer": "data.disable_fast_tokenizer",
    # training
    "train_batch_size": "train.batch_size",
    "micro_train_batch_size": "train.micro_batch_size",
    "train_max_tokens_per_gpu": "train.max_tokens_per_gpu",
    "max_epochs": "train.max_epochs",
    "num_episodes": "train.num_episodes",
    "seed": "train.seed",
    "full_determinism": "train.full_determinism_enable",
    "async_train": "train.async_enable",
    "async_queue_size": "train.async_queue_size",
    "partial_rollout": "train.partial_rollout_enable",
    "use_dynamic_batch": "train.dynamic_batch_enable",
    "enable_ema": "train.enable_ema",
    "ema_beta": "train.ema_beta",
    "agent_func_path": "train.agent_func_path",
    # evaluation, checkpoints, logging
    "eval_dataset": "eval.dataset",
    "eval_split": "eval.split",
    "eval_steps": "eval.steps",
    "eval_temperature": "eval.temperature",
    "eval_n_samples_per_prompt": "eval.n_samples_per_prompt",
    "save_path": "ckpt.output_dir",
    "ckpt_path": "ckpt.path",
    "save_steps": "ckpt.save_steps",
    "save_hf_ckpt": "ckpt.save_hf",
    "disable_ds_ckpt": "ckpt.disable_ds",
    "max_ckpt_num": "ckpt.max_num",
    "max_ckpt_mem": "ckpt.max_mem",
    "load_checkpoint": "ckpt.load_enable",
    "best_metric_key": "ckpt.best_metric_key",
    "use_wandb": "logger.wandb.key",
    "wandb_org": "logger.wandb.org",
    "wandb_group": "logger.wandb.group",
    "wandb_project": "logger.wandb.project",
    "wandb_run_name": "logger.wandb.run_name",
    "use_tensorboard": "logger.tensorboard_dir",
    "logging_steps": "logger.logging_steps",
    # algorithm and loss
    "advantage_estimator": "algo.advantage.estimator",
    "gamma": "algo.advantage.gamma",
    "lambd": "algo.advantage.lambd",
    "no_advantage_std_norm": "algo.advantage.no_std_norm",
    "enable_vllm_is_correction": "algo.advantage.is_correction_enable",
    "vllm_is_correction_type": "algo.advantage.is_correction_type",
    "vllm_is_truncated_threshold": "algo.advantage.is_correction_threshold",
    "init_kl_coef": "algo.kl.init_coef",
    "kl_target": "algo.kl.target",
    "kl_horizon": "algo.kl.horizon",
    "kl_estimator": "algo.kl.estimator",
    "use_kl_loss": "algo.kl.use_loss",
    "dynamic_filtering": "algo.dynamic_filtering_enable",
    "dynamic_filtering_reward_range": "algo.dynamic_filtering_range",
    "use_filter_sample": "algo.bad_examples.filter_enable",
    "use_loss_mask": "algo.bad_examples.loss_mask_enable",
    "eps_clip": "actor.eps_clip",
    "eps_clip_low_high": "actor.eps_clip_low_high",
    "dual_clip": "actor.dual_clip",
    "policy_loss_type": "actor.policy_loss_type",
    "entropy_loss_coef": "actor.entropy_coef",
    "aux_loss_coef": "actor.aux_loss_coef",
    "freezing_actor_steps": "critic.freezing_steps",
    "value_clip": "critic.value_clip",
    "save_value_network": "critic.save_value_network",
    "ref_offload": "ref.offload",
    "ref_reward_offload": "reward.offload",
    "normalize_reward": "reward.normalize_enable",
    "reward_clip_range": "reward.clip_range",
    "overlong_buffer_len": "reward.overlong_buffer_len",
    "overlong_penalty_factor": "reward.overlong_penalty_factor",
    "stop_properly_penalty_coef": "reward.stop_properly_penalty_coef",
    # optimiser
    "actor_learning_rate": "actor.adam.lr",
    "critic_learning_rate": "critic.adam.lr",
}

# Old flags of the optimiser were those of every trained model, which today have their own.
_SHARED: dict[str, str] = {
    "adam_betas": "adam.betas",
    "adam_eps": "adam.eps",
    "l2": "adam.weight_decay",
    "muon_lr": "muon.lr",
    "muon_momentum": "muon.momentum",
    "muon_ns_steps": "muon.ns_steps",
    "muon_nesterov": "muon.nesterov",
    "no_muon_nesterov": "muon.no_nesterov",
    "lr_scheduler": "lr_scheduler",
    "lr_warmup_ratio": "lr_warmup_ratio",
    "min_lr_ratio": "min_lr_ratio",
    "max_norm": "max_norm",
}

# What every old name means today; the actor's flag comes first where there are two.
RENAMED: dict[str, tuple[str, ...]] = {old: (new,) for old, new in _RENAMED.items()}
RENAMED |= {old: (f"actor.{new}", f"critic.{new}") for old, new in _SHARED.items()}

# Old switches that set a value of a new flag.
SWITCHES: dict[str, tuple[str, str]] = {
    "bf16": ("ds.param_dtype", "bf16"),
    "flash_attn": ("ds.attn_implementation", "flash_attention_2"),
    "use_global_token_level_loss": ("actor.loss_aggregation", "token"),
    "use_dual_policy_loss": ("actor.dual_clip", "3"),
    "use_cispo": ("actor.policy_loss_type", "cispo"),
    "use_adv_mask_before": ("algo.bad_examples.advantage_mask", "before"),
    "use_adv_mask_after": ("algo.bad_examples.advantage_mask", "after"),
    "use_adv_mask_skip": ("algo.bad_examples.advantage_mask", "skip"),
}

# Old switches for what is now always so.
ALWAYS: dict[str, str] = {"use_seq_balancing": "sequences are always balanced over the data-parallel ranks"}

# Flags that are gone, or belong to another command, and what to do instead.
REMOVED: dict[str, str] = {
    "actor_init_on_gpu": "leave it out; models load where they run",
    "ptx_coef": "leave it out; mixing a pre-training loss is gone",
    "actor.ptx_coef": "leave it out; mixing a pre-training loss is gone",
    "train.perf_tracking_enable": "leave it out; timing/* in metrics.jsonl holds the seconds of every phase",
    "train_split": "use --data.prompt_split",
    "muon_adam_lr": "use --actor.adam.lr, which Muon's Adam group shares",
    "learning_rate": "use --actor.adam.lr",
    "dataset": "use --data.prompt_dataset; the old flag belongs to train_sft, train_rm and train_dpo",
    "dataset_probs": "use --data.prompt_probs; the old flag belongs to train_sft, train_rm and train_dpo",
    "dataset_split": "use --data.prompt_split; the old flag belongs to train_sft, train_rm and train_dpo",
    "output_key": "leave it out; it belongs to train_sft, RL uses --data.label_key",
    "prompt_key": "use --data.input_key; the old flag belongs to train_rm and train_dpo",
    "chosen_key": "leave it out; it belongs to train_rm and train_dpo",
    "rejected_key": "leave it out; it belongs to train_rm and train_dpo",
    "tokenizer_chat_template": "leave it out; save the template with the tokenizer and use --data.apply_chat_template",
    "multiturn": "leave it out; it belongs to train_sft",
    "beta": "leave it out; it belongs to train_dpo",
    "ipo": "leave it out; it belongs to train_dpo",
    "label_smoothing": "leave it out; it belongs to train_dpo",
    "nll_loss_coef": "leave it out; it belongs to train_dpo",
    "compute_fp32_loss": "leave it out; it belongs to train_rm",
    "margin_loss": "leave it out; it belongs to train_rm",
    "pretrain_mode": "leave it out; it belongs to train_sft",
    "loss": "leave it out; it belongs to train_rm",
}
# The other commands spell their data flags with the section before them.
_OTHER_DATA = ("dataset", "dataset_probs", "dataset_split", "output_key", "prompt_key", "chosen_key", "rejected_key")
REMOVED |= {f"data.{name}": REMOVED[name] for name in (*_OTHER_DATA, "tokenizer_chat_template", "multiturn")}


def named(paths: Sequence[str], dashes: str = "--") -> str:
    """`--actor.max_norm and --critic.max_norm`."""
    return " and ".join(f"{dashes}{path}" for path in paths)


def _today(name: str) -> list[str]:
    """The flags that take an old one's place, or that its advice names."""
    advised = re.findall(r"--([\w.]+\w)", REMOVED.get(name, ""))
    return [*RENAMED.get(name, ()), *(SWITCHES[name][:1] if name in SWITCHES else ()), *advised]


def _translate_one(old: Given, program: str, warnings: list[str], problems: list[str]) -> list[Given]:
    """The new occurrences that an old one stands for, or none."""
    if old.name in REMOVED:
        problems.append(f"{old.typed} is no flag of {program}: {REMOVED[old.name]}")
        return []
    if old.name in RENAMED:
        first, *others = RENAMED[old.name]
        warnings.append(f"{old.typed} is the old name of {named(RENAMED[old.name])}")
        return [old.renamed(first), *(old.copied(other) for other in others)]
    if old.name not in SWITCHES and old.name not in ALWAYS:
        return [old]
    if old.truth() is not True:
        replacement = f"use --{SWITCHES[old.name][0]}" if old.name in SWITCHES else "leave it out"
        problems.append(f"{old.typed} {' '.join(old.values)!r}: this old switch can only be on; {replacement}")
        return []
    if old.name in ALWAYS:
        warnings.append(f"{old.typed} is no longer needed: {ALWAYS[old.name]}")
        return []
    new, value = SWITCHES[old.name]
    warnings.append(f"{old.typed} is the old form of --{new} {value}")
    return [old.renamed(new, (value,))]


def _max_len(prompt: Given, found: Sequence[Given], warnings: list[str], problems: list[str]) -> list[Given]:
    """`--prompt_max_len p` with a response budget g is `--data.max_len p+g`."""
    budgets = [entry.values for entry in found if entry.name == "rollout.max_new_tokens"]
    numbers = [*prompt.values, *(value for values in budgets for value in values)]
    if len(prompt.values) != 1 or not budgets or not all(whole_number(word) and int(word) >= 0 for word in numbers):
        problems.append(
            f"{prompt.typed} {brief(' '.join(prompt.values))}: the old prompt budget needs a whole number and "
            "--rollout.max_new_tokens beside it; use --data.max_len, which counts prompt and response together"
        )
        return []
    total = int(prompt.values[0]) + int(budgets[0][0])
    warnings.append(f"{prompt.typed} is old: prompt and response budget together are --data.max_len {total}")
    return [prompt.renamed("data.max_len", (str(total),))]


def translate(
    found: Sequence[Given], program: str, is_known: Callable[[str], bool]
) -> tuple[list[Given], list[str], list[str]]:
    """(flags under today's names, warnings, problems) of a program; `is_known` says which flags it has.

    Flags that are not old pass unchanged, and so do those whose new names another program has.
    """
    warnings: list[str] = []
    problems: list[str] = []
    new: list[Given] = []
    prompts = []
    for entry in found:
        if entry.name == "prompt_max_len":
            prompts.append(entry)
        elif not all(is_known(name) for name in _today(entry.name)):
            new.append(entry)
        else:
            new += _translate_one(entry, program, warnings, problems)
    for prompt in prompts:
        new += _max_len(prompt, new, warnings, problems)
    return new, list(dict.fromkeys(warnings)), problems

"""Ranges of single flags, whatever the other flags say."""

import math
from collections.abc import Callable
from typing import Any

from openrlhf.config.base import Section
from openrlhf.config.schema import flags, shown, values

_Bound = tuple[str, Callable[[Any], bool]]

_AT_LEAST_1: _Bound = ("at least 1", lambda x: x >= 1)
_POSITIVE: _Bound = ("over 0", lambda x: x > 0)
_NOT_NEGATIVE: _Bound = ("0 or more", lambda x: x >= 0)
_SHARE: _Bound = ("from 0 to 1", lambda x: 0 <= x <= 1)
_BELOW_1: _Bound = ("from 0 to below 1", lambda x: 0 <= x < 1)
_MASS: _Bound = ("over 0 and at most 1", lambda x: 0 < x <= 1)
_RANGE: _Bound = ("a lower and a higher number", lambda x: x[0] < x[1])
_SEED: _Bound = ("from 0 to 4294967295; NumPy takes no more", lambda x: 0 <= x < 2**32)
_PORT: _Bound = ("a port, from 1 to 65535", lambda x: 1 <= x < 1 << 16)
_NEVER_OR_EVERY: _Bound = ("-1 (never) or at least 1", lambda x: x == -1 or x >= 1)

_OPTIMISER: dict[str, _Bound] = {
    "adam.lr": _NOT_NEGATIVE,
    "adam.betas": ("two numbers from 0 to below 1", lambda x: all(0 <= beta < 1 for beta in x)),
    "adam.eps": _POSITIVE,
    "adam.weight_decay": _NOT_NEGATIVE,
    "muon.lr": _NOT_NEGATIVE,
    "muon.momentum": _BELOW_1,
    "lr_warmup_ratio": _SHARE,
    "min_lr_ratio": _SHARE,
    "max_norm": _NOT_NEGATIVE,
}

BOUNDS: dict[str, _Bound] = {
    "actor.num_nodes": _AT_LEAST_1,
    "actor.num_gpus_per_node": _AT_LEAST_1,
    **{f"{model}.{flag}": bound for model in ("actor", "critic") for flag, bound in _OPTIMISER.items()},
    "actor.eps_clip": _POSITIVE,
    "actor.eps_clip_low_high": ("two numbers over 0, the first at most 1", lambda x: 0 < x[0] <= 1 and x[1] > 0),
    "actor.dual_clip": ("over 1 (typical 3); it bounds ratios above 1, or leave it out", lambda x: x > 1),
    "actor.entropy_coef": _NOT_NEGATIVE,
    "actor.aux_loss_coef": _NOT_NEGATIVE,
    "critic.num_nodes": _AT_LEAST_1,
    "critic.num_gpus_per_node": _AT_LEAST_1,
    "critic.value_clip": _POSITIVE,
    "critic.freezing_steps": ("-1 (none) or more", lambda x: x >= -1),
    "ref.num_nodes": _AT_LEAST_1,
    "ref.num_gpus_per_node": _AT_LEAST_1,
    "reward.num_nodes": _AT_LEAST_1,
    "reward.num_gpus_per_node": _AT_LEAST_1,
    "reward.abort_after": _AT_LEAST_1,
    "reward.max_concurrent": _AT_LEAST_1,
    "reward.clip_range": _RANGE,
    "reward.overlong_buffer_len": _POSITIVE,
    "reward.overlong_penalty_factor": _NOT_NEGATIVE,
    "reward.stop_properly_penalty_coef": ("at most 1: a factor from 0 to 1, or a negative reward", lambda x: x <= 1),
    "rollout.batch_size": _AT_LEAST_1,
    "rollout.n_samples_per_prompt": _AT_LEAST_1,
    "rollout.micro_batch_size": _AT_LEAST_1,
    "rollout.max_tokens_per_gpu": _AT_LEAST_1,
    "rollout.max_new_tokens": _AT_LEAST_1,
    "rollout.temperature": ("over 0; the trainer divides logits by it", lambda x: x > 0),
    "rollout.top_p": _MASS,
    "rollout.vllm_generate_batch_size": _AT_LEAST_1,
    "vllm.num_engines": ("at least 1; every rollout needs a vLLM engine", lambda x: x >= 1),
    "vllm.tensor_parallel_size": _AT_LEAST_1,
    "vllm.gpu_memory_utilization": _MASS,
    "vllm.max_num_seqs": _AT_LEAST_1,
    "vllm.cpu_kv_cache_gb": _AT_LEAST_1,
    "vllm.max_restarts": _NOT_NEGATIVE,
    "endpoint.max_concurrent": _AT_LEAST_1,
    "endpoint.timeout": _POSITIVE,
    "eval.confidence": ("between 0 and 1", lambda x: 0 < x < 1),
    "eval.timeout": _POSITIVE,
    "eval.steps": _NEVER_OR_EVERY,
    "eval.temperature": _NOT_NEGATIVE,
    "eval.top_p": _MASS,
    "eval.n_samples_per_prompt": _AT_LEAST_1,
    "eval.max_samples": _AT_LEAST_1,
    "data.max_len": ("at least 2, one token of prompt and one of response", lambda x: x >= 2),
    "data.max_samples": _AT_LEAST_1,
    "data.max_images_per_prompt": _NOT_NEGATIVE,
    "data.dataloader_num_workers": _NOT_NEGATIVE,
    "algo.advantage.gamma": _SHARE,
    "algo.advantage.lambd": _SHARE,
    "algo.advantage.is_correction_threshold": ("a lower and a higher number from 0", lambda x: 0 <= x[0] < x[1]),
    "algo.kl.init_coef": _NOT_NEGATIVE,
    "algo.kl.target": _POSITIVE,
    "algo.kl.horizon": _AT_LEAST_1,
    "algo.dynamic_filtering_range": _RANGE,
    "train.batch_size": _AT_LEAST_1,
    "train.micro_batch_size": _AT_LEAST_1,
    "train.max_epochs": _AT_LEAST_1,
    "train.num_episodes": _AT_LEAST_1,
    "train.max_steps": _AT_LEAST_1,
    "train.seed": _SEED,
    "train.max_tokens_per_gpu": _AT_LEAST_1,
    "train.async_queue_size": _AT_LEAST_1,
    "train.max_staleness": _NOT_NEGATIVE,
    "train.ema_beta": _BELOW_1,
    "ckpt.save_steps": _NEVER_OR_EVERY,
    "ckpt.max_num": _AT_LEAST_1,
    "ckpt.max_mem": _POSITIVE,
    "logger.logging_steps": _AT_LEAST_1,
    "logger.num_rollouts_stored": _NOT_NEGATIVE,
    "cluster.start_timeout": _POSITIVE,
    "cluster.rollout_timeout": _POSITIVE,
    "cluster.train_timeout": _POSITIVE,
    "cluster.sync_timeout": _POSITIVE,
    "cluster.collective_timeout": _POSITIVE,
    "env.max_episodes": _AT_LEAST_1,
    "env.max_generations": _AT_LEAST_1,
    "env.max_retries": _NOT_NEGATIVE,
    "env.request_timeout": _POSITIVE,
    "env.code.port": _PORT,
    "env.verifier.math_port": _PORT,
    "env.verifier.judge_port": _PORT,
    "env.verifier.math_timeout": _POSITIVE,
    "env.verifier.judge_timeout": _POSITIVE,
    "env.verifier.max_retries": _AT_LEAST_1,
    "env.code.max_concurrent": _AT_LEAST_1,
    "env.code.rounds": _NOT_NEGATIVE,
    "env.code.max_retries": _AT_LEAST_1,
    "env.code.run_timeout": _POSITIVE,
    "env.code.compile_timeout": _POSITIVE,
    "env.code.result_tokens": _AT_LEAST_1,
}


def _finite(value: Any) -> bool:
    numbers = value if isinstance(value, tuple) else (value,)
    return all(math.isfinite(number) for number in numbers if isinstance(number, float))


def bound_problems(config: Section) -> list[str]:
    """One line for each number that is not finite (where its default is), or out of its range."""
    known = flags(type(config))
    problems = []
    for path, value in values(config).items():
        if value is None or value == known[path].default:
            continue
        if not _finite(value):
            problems.append(f"--{path} {shown(value)}: must be finite")
        elif path in BOUNDS and not BOUNDS[path][1](value):
            problems.append(f"--{path} {shown(value)}: must be {BOUNDS[path][0]}")
    return problems

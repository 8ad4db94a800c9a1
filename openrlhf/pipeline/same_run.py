"""Whether a run that resumes is the run that was saved: every flag that differs is named."""

from collections.abc import Mapping
from typing import Any

from openrlhf.config.ppo import PPOConfig
from openrlhf.config.schema import shown, values
from openrlhf.pipeline.checkpoint_store import CheckpointError

# What a checkpoint's weights, optimiser states or sharding are made of: another value cannot go on from it.
_FIXED = (
    "actor.model_name_or_path",
    "actor.num_nodes",
    "actor.num_gpus_per_node",
    "actor.optim",
    "actor.freeze_visual_encoder",
    "critic.model_name_or_path",
    "critic.num_nodes",
    "critic.num_gpus_per_node",
    "critic.optim",
    "algo.advantage.estimator",
    "data.max_images_per_prompt",
    "ds.zero_stage",
    "ds.param_dtype",
    "ds.value_head_prefix",
    "train.async_enable",
    "train.enable_ema",
    "train.seed",
)
# What may change from one start of a run to the next without a word.
_FREE = ("ckpt.", "logger.", "cluster.", "eval.", "vllm.", "train.max_steps", "train.num_episodes", "local_rank")


def compare(saved: PPOConfig, now: PPOConfig, origin: str) -> list[str]:
    """The warnings: one per flag that changed and that the run can live with.

    Args:
        saved: the resolved config of the checkpoint; `now`: this start's.
        origin: what the messages call the checkpoint.

    Raises:
        CheckpointError: flags changed that the checkpoint cannot go on with, all named in one line.
    """
    changed = _changed(values(saved), values(now))
    broken = [line for flag, line in changed.items() if flag in _FIXED]
    if broken:
        raise CheckpointError(
            f"{origin} was written by another run: {'; '.join(broken)}. Give these flags as they were, or start a new "
            "run with another --ckpt.path"
        )
    return [f"resuming {origin} with {line}" for flag, line in changed.items() if not flag.startswith(_FREE)]


def _changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, str]:
    """flag -> '--flag NOW (it was BEFORE)', for every flag of either."""
    return {
        flag: f"--{flag} {shown(after.get(flag))} (it was {shown(before.get(flag))})"
        for flag in {**before, **after}
        if before.get(flag) != after.get(flag)
    }

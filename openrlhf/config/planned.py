"""Flags that later work brings. Their defaults pass; any other value is refused by name.

Delete a line here when the feature works. An entry that names a section stands for all flags in it.
"""

from openrlhf.config.ppo import PPOConfig
from openrlhf.config.schema import flags, shown, values

_DEEPSPEED = "this DeepSpeed feature"
_LORA = "LoRA"
_RING = "ring attention"

PLANNED: dict[str, str] = {
    "vllm.sync_with_ray": "weight sync over Ray's collective groups",
    "ds.deepcompile": _DEEPSPEED,
    "ds.zpg": _DEEPSPEED,
    "ds.tensor_parallel_size": _DEEPSPEED,
    "ds.use_universal_ckpt": _DEEPSPEED,
    "ds.use_liger_kernel": "Liger kernels",
    "ds.load_in_4bit": "4-bit loading",
    "ds.lora": _LORA,
    "ds.ring_attn_size": _RING,
    "ds.ring_attn_head_stride": _RING,
    "use_ms": "ModelScope",
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
    """One line for each planned flag that is not at its default."""
    problems = []
    for path, value in values(config).items():
        feature = feature_of(path)
        default = flags()[path].default
        if feature is not None and value != default:
            line = (
                f"--{path} {shown(value)}: comes with later work ({feature}); leave it out (default {shown(default)})"
            )
            problems.append(line)
    return problems

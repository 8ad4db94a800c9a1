"""The attention kernel: what was asked for, against what the device and its packages can do."""

from dataclasses import dataclass

from openrlhf.config.check_words import brief

FLASH_PACKAGE = "flash_attn"
_ON_CPU = ("sdpa", "eager")
_ON_GPU = (*_ON_CPU, "flash_attention_2", "flash_attention_3", "flex_attention")


@dataclass(frozen=True, slots=True)
class Attention:
    """The kernel to use, and what to tell: warnings where another one was asked for, problems where none can be."""

    kernel: str
    warnings: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


def choose_attention(asked: str | None, device: str, has_flash: bool) -> Attention:
    """`asked`: the flag's value. `has_flash`: the package flash_attn can be imported where the model runs."""
    flag = f"--ds.attn_implementation {brief(asked or '')}"
    best = "flash_attention_2" if device == "cuda" and has_flash else "sdpa"
    if asked is None:
        return Attention(best)
    if device == "cpu" and "flash" in asked:
        return Attention("sdpa", warnings=(f"{flag}: flash attention needs a GPU; using sdpa",))
    if device == "cuda" and asked == "flash_attention_2" and not has_flash:
        return Attention("sdpa", warnings=(f"{flag}: the package {FLASH_PACKAGE} is not installed; using sdpa",))
    known = _ON_CPU if device == "cpu" else _ON_GPU
    is_hub_kernel = device == "cuda" and "/" in asked
    if asked in known or is_hub_kernel:
        return Attention(asked)
    reason = "does not train on a CPU" if asked in _ON_GPU else "no such kernel"
    return Attention(asked, problems=(f"{flag}: {reason}; use one of {', '.join(known)}",))

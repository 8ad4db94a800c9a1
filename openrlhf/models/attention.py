"""Which attention implementation a device can train with."""

import importlib.util

import torch
from transformers import PretrainedConfig, PreTrainedModel

# sdpa and eager take packed sequences as they are: transformers builds the block mask from the position ids.
_CPU = ("sdpa", "eager")


def default_attention(device: str) -> str:
    """Return the fastest implementation that `device` ("cpu" or "cuda") has at hand."""
    if device == "cuda" and importlib.util.find_spec("flash_attn") is not None:
        return "flash_attention_2"
    return "sdpa"


def takes_any_mask(config: PretrainedConfig) -> bool:
    """Whether attention is plain softmax attention over all earlier tokens, in a kernel that takes an explicit mask.

    Sliding windows and linear attention build masks or states of their own from the order of the tokens.
    """
    settings = config.get_text_config().to_dict()
    layer_types = settings.get("layer_types") or ["full_attention"]
    local = "local" in (settings.get("attention_layers") or ())  # GPT-Neo's sliding windows
    return (
        config._attn_implementation in _CPU
        and not settings.get("sliding_window")
        and not local
        and set(layer_types) == {"full_attention"}
    )


def explicit_mask(model: PreTrainedModel, allowed: torch.Tensor) -> torch.Tensor:
    """The mask (1, 1, M, M) that the model's attention kernel reads, from `allowed` (M, M): token i may see token j.

    sdpa takes truth values. The eager kernel adds what it is given to the scores, truth values too, as 0 and 1.
    """
    mask = allowed[None, None]
    if model.config.get_text_config()._attn_implementation != "eager":
        return mask
    return torch.zeros(mask.shape, dtype=model.dtype, device=mask.device).masked_fill_(
        ~mask, torch.finfo(model.dtype).min
    )

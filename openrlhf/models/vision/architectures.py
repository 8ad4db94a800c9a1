"""The vision-language architectures that can be trained here.

An entry says what differs between them, by the `model_type` of the config. To add one, write its entry and run the
tests in tests/integration/vision over it: they compare log-probabilities of engine and trainer before and after a sync.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from transformers import PretrainedConfig

from openrlhf.models.errors import ModelError


@dataclass(frozen=True, slots=True)
class VisionArchitecture:
    """What differs between vision-language models.

    Args:
        placeholder: the text of one image in a plain prompt; `{token}` stands for the image token.
        tensors: what the processor makes of an image, each with the dimension along which those of several images are
            joined, in the order in which their tokens come.
        positions: `plain` counts tokens; `grid` has rows of their own for time, height and width of an image (M-RoPE).
        packed: several sequences in one row are exact.
        language: beginnings of the names of the language model's weights; all others are the vision encoder's and its
            projector's.
        processor: what the processor needs beside Pillow.
    """

    placeholder: str
    tensors: Mapping[str, int]
    positions: Literal["plain", "grid"]
    packed: bool
    language: tuple[str, ...]
    processor: Literal["pillow", "torchvision"] = "pillow"


_QWEN = VisionArchitecture(
    placeholder="<|vision_start|>{token}<|vision_end|>",
    tensors={"pixel_values": 0, "image_grid_thw": 0},
    positions="grid",
    packed=True,
    language=("model.language_model.", "lm_head."),
    processor="torchvision",
)
ARCHITECTURES: dict[str, VisionArchitecture] = {
    "idefics3": VisionArchitecture(
        placeholder="{token}",
        tensors={"pixel_values": 1, "pixel_attention_mask": 1},
        positions="plain",
        packed=True,
        language=("model.text_model.", "lm_head."),
    ),
    "qwen2_5_vl": _QWEN,
    "qwen3_vl": _QWEN,
}


def has_vision(config: PretrainedConfig) -> bool:
    """Whether the config has a vision part."""
    return "vision_config" in type(config).sub_configs


def architecture_of(config: PretrainedConfig) -> VisionArchitecture | None:
    """The entry of a model; None for a text model, and for a vision-language one that has none."""
    return ARCHITECTURES.get(config.model_type) if has_vision(config) else None


def require_architecture(path: str, config: PretrainedConfig) -> VisionArchitecture:
    """The entry of a model that is to see images, or could.

    Raises:
        ModelError: a text model, or a vision-language one without an entry.
    """
    found = architecture_of(config)
    if found is not None:
        return found
    known = ", ".join(ARCHITECTURES)
    if has_vision(config):
        raise ModelError(
            f"model {path!r}: {config.model_type} is a vision-language model without an entry here, so it cannot be "
            f"trained, on text neither; take one of {known}, or write its entry (docs/vision.md)"
        )
    raise ModelError(
        f"model {path!r}: --data.max_images_per_prompt is set, but {config.model_type} is a text model; take one of "
        f"{known}, or leave the flag out"
    )

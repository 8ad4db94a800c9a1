"""What a model's images need, from its config."""

from transformers import PretrainedConfig

from openrlhf.models.vision.architectures import has_vision
from openrlhf.models.vision.inputs import VisionInputs
from openrlhf.models.vision.processor import VisionProcessor


def vision_processor(path: str, config: PretrainedConfig, max_images: int) -> VisionProcessor | None:
    """None for a text model that is to see no images.

    A vision-language model needs an entry even for text. Of some, Qwen3.5 among them, transformers' class for causal
    LMs takes the language model alone, with other names than the engine's: the first sync would find that out.

    Raises:
        ModelError: images are wanted of a text model; no entry; its processor cannot be loaded.
    """
    if max_images == 0 and not has_vision(config):
        return None
    return VisionProcessor(path, config, max_images)


def vision_inputs(
    path: str, config: PretrainedConfig, max_images: int, *, sharded: bool = False, trained: bool = False
) -> VisionInputs | None:
    """For the trainer of a model; arguments of `VisionInputs`. Raises ModelError as `vision_processor`."""
    processor = vision_processor(path, config, max_images)
    return None if processor is None else VisionInputs(processor, sharded, trained)

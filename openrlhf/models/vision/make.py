"""What a model's images need, from its config."""

from transformers import PretrainedConfig

from openrlhf.models.vision.architectures import has_vision
from openrlhf.models.vision.inputs import VisionInputs
from openrlhf.models.vision.processor import PIXEL_BYTES, VisionProcessor


def vision_processor(
    path: str, config: PretrainedConfig, max_images: int, pixel_bytes: int = 0
) -> VisionProcessor | None:
    """Arguments of `VisionProcessor`; None for a text model that is to see no images.

    A vision-language model needs an entry even for text. Of some, Qwen3.5 among them, transformers' class for causal
    LMs takes the language model alone, with other names than the engine's: the first sync would find that out.

    Raises:
        ModelError: images are wanted of a text model; no entry; its processor cannot be loaded.
    """
    if max_images == 0 and not has_vision(config):
        return None
    return VisionProcessor(path, config, max_images, pixel_bytes)


def vision_inputs(
    path: str, config: PretrainedConfig, max_images: int, *, sharded: bool = False, trained: bool = False
) -> VisionInputs | None:
    """For the trainer of a model; arguments of `VisionInputs`. Raises ModelError as `vision_processor`.

    Where no image is ever shown no rank runs the encoder, so that none has to for the others' sake.
    """
    processor = vision_processor(path, config, max_images, PIXEL_BYTES)
    shows = max_images > 0
    return None if processor is None else VisionInputs(processor, sharded and shows, trained and shows)

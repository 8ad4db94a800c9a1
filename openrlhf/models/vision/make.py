"""What a model's images need, from its config."""

from transformers import PretrainedConfig

from openrlhf.models.vision.architectures import architecture_of, require_architecture
from openrlhf.models.vision.inputs import VisionInputs
from openrlhf.models.vision.processor import VisionProcessor


def vision_processor(path: str, config: PretrainedConfig, max_images: int) -> VisionProcessor | None:
    """None for a model that will see no images and has no image tokens to be kept from sampling.

    Raises:
        ModelError: images are wanted of a model that takes none, or has no entry; its processor cannot be loaded.
    """
    if max_images > 0:
        require_architecture(path, config)
    return None if architecture_of(config) is None else VisionProcessor(path, config, max_images)


def vision_inputs(
    path: str, config: PretrainedConfig, max_images: int, *, sharded: bool = False, trained: bool = False
) -> VisionInputs | None:
    """For the trainer of a model; arguments of `VisionInputs`. Raises ModelError as `vision_processor`."""
    processor = vision_processor(path, config, max_images)
    return None if processor is None else VisionInputs(processor, sharded, trained)

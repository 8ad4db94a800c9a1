"""Whether the reference model sees images as the actor does: it scores the very tokens that the actor was shown."""

from collections.abc import Iterable

from PIL import Image
from transformers import PretrainedConfig

from openrlhf.config.ppo import PPOConfig
from openrlhf.images import ImageError, read_image, size_of
from openrlhf.models.errors import ModelError
from openrlhf.models.vision.architectures import has_vision
from openrlhf.models.vision.make import vision_processor
from openrlhf.models.vision.processor import VisionProcessor
from openrlhf.types import EncodedImage, Prompt

# Width and height of the images that stand for those of an agent, which nobody has seen before the run.
_PROBES = ((64, 64), (224, 224), (640, 480), (480, 640), (1024, 256), (256, 1024), (1600, 1200))


def check_reference(
    config: PPOConfig, own: PretrainedConfig, actor: VisionProcessor | None, prompts: Iterable[Prompt], *, agent: bool
) -> None:
    """Look at the reference model, whose config is `own`. `actor`: how the actor takes images, if it takes any.

    `agent`: whether an agent may show images that no prompt has; images of several shapes then stand for them.

    Raises:
        ModelError: it cannot see images, or makes other tokens of one of them than the actor.
    """
    path, max_images = str(config.ref.model_name_or_path), config.data.max_images_per_prompt
    if path == config.actor.model_name_or_path:
        return
    flag = f"--ref.model_name_or_path {path}"
    if max_images and not has_vision(own):
        raise ModelError(
            f"{flag}: {own.model_type} is a text model, and with --data.max_images_per_prompt {max_images} the "
            "reference must see the actor's images; take the model that the actor starts from"
        )
    reference = vision_processor(path, own, max_images)
    if reference is None or actor is None or max_images == 0:
        return
    for image in _one_of_each_size(prompts, agent):
        try:
            expected = actor.tokens(image)
        except ImageError:
            continue  # told for its prompt; a probe that the actor refuses will not come
        try:
            found = reference.tokens(image)
        except ImageError as error:
            raise ModelError(f"{flag}: {error}; the actor's processor takes it") from error
        if found != expected:
            made = f"{len(found)} tokens" if len(found) != len(expected) else f"other tokens, {len(found)} of them,"
            raise ModelError(
                f"{flag}: its processor makes {made} of image {image.source}, the actor's {len(expected)}; take a "
                "reference with the actor's processor, such as the model that the actor starts from"
            )


def _one_of_each_size(prompts: Iterable[Prompt], agent: bool) -> list[EncodedImage]:
    """Their size decides how many tokens images have."""
    found: dict[tuple[int, int], EncodedImage] = {}
    for prompt in prompts:
        for image in prompt.images:
            found.setdefault(size_of(image), image)
    for size in _PROBES if agent else ():
        if size not in found:
            blank = read_image(Image.new("RGB", size, "white"))
            found[size] = EncodedImage(blank.data, f"of {size[0]} x {size[1]} pixels")
    return list(found.values())

"""Images among the tokens of an episode."""

from collections.abc import Sequence

from openrlhf.interfaces import ImageTokens, LLMEngine
from openrlhf.types import EncodedImage


def expanded(engine: LLMEngine, token_ids: Sequence[int], images: Sequence[EncodedImage]) -> list[int]:
    """The ids with all tokens of every image in place of its placeholder: the form that engines and records take.

    ValueError where there are not as many placeholders as images, or the model takes no images.
    """
    if engine.image_tokens is not None:
        return engine.image_tokens.expand(token_ids, images)
    if images:
        raise ValueError(f"{len(images)} images for a model that takes none")
    return [int(token) for token in token_ids]


def images_before(vision: ImageTokens, token_ids: Sequence[int], images: Sequence[EncodedImage]) -> int:
    """How many of the images these ids, the beginning of an episode, show. ValueError where they show half of one."""
    for count in range(len(images) + 1):
        try:
            vision.fold(token_ids, images[:count])
        except ValueError:
            continue
        return count
    raise ValueError(f"the first {len(token_ids)} tokens do not show whole images")

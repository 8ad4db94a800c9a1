"""The image side of a vision-language model's processor: tokens and tensors of single images, made once each."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from transformers import AutoProcessor, PretrainedConfig

from openrlhf.faults import first_line
from openrlhf.images import ImageError
from openrlhf.models.errors import ModelError
from openrlhf.models.vision.architectures import VisionArchitecture, require_architecture
from openrlhf.types import EncodedImage

MARK = "<image>"  # what a row or an agent writes for one image, whatever the model
_CACHE_BYTES = 2**29
_MEDIA = ("image_token_id", "video_token_id", "audio_token_id")


class VisionProcessor:
    """Implements interfaces.ImageTokens, and makes the tensors of images.

    How an image is expanded depends on nothing but the image: its tokens are those that the processor makes of a text
    that holds the placeholder alone.

    Args:
        max_images: that an episode may show.

    Raises:
        ModelError: no entry for the architecture, or its processor cannot be loaded.
    """

    def __init__(self, path: str, config: PretrainedConfig, max_images: int) -> None:
        self.architecture: VisionArchitecture = require_architecture(path, config)
        self.max_images = max_images
        self.processor = load_processor(path, self.architecture)
        self.token: str = self.processor.image_token
        settings = config.to_dict()
        self.token_id = int(settings["image_token_id"])
        self.banned_ids = tuple(sorted({int(settings[name]) for name in _MEDIA if settings.get(name) is not None}))
        self._spatial_merge = int((settings.get("vision_config") or {}).get("spatial_merge_size", 1))
        self._placeholder = self.architecture.placeholder.format(token=self.token)
        self._made: OrderedDict[EncodedImage, tuple[tuple[int, ...], dict[str, torch.Tensor]]] = OrderedDict()
        self._bytes = 0
        own = self.processor.tokenizer.convert_tokens_to_ids(self.token)
        if own != self.token_id:
            raise ModelError(f"model {path!r}: its config says image token {self.token_id}, its processor {own}")

    @property
    def chat_template(self) -> Any:
        """None where the processor has none of its own; the tokenizer's is the model's then."""
        return self.processor.chat_template

    @property
    def spatial_merge(self) -> int:
        """Patches per side of the square that becomes one token."""
        return self._spatial_merge

    def mark(self, text: str) -> str:
        return text if self._placeholder == MARK else text.replace(MARK, self._placeholder)

    def expand(self, token_ids: Sequence[int], images: Sequence[EncodedImage]) -> list[int]:
        ids = [int(token) for token in token_ids]
        found = ids.count(self.token_id)
        if found != len(images):
            raise ValueError(f"{found} placeholders ({self.token}) for {len(images)} images")
        expanded: list[int] = []
        waiting = iter(images)
        for token in ids:
            expanded += self.tokens(next(waiting)) if token == self.token_id else (token,)
        return expanded

    def fold(self, token_ids: Sequence[int], images: Sequence[EncodedImage]) -> list[int]:
        ids = [int(token) for token in token_ids]
        folded: list[int] = []
        place = 0
        for number, image in enumerate(images, start=1):
            tokens = list(self.tokens(image))
            start = _find(ids, tokens, place)
            if start is None or self.token_id in ids[place:start]:
                raise ValueError(
                    f"image {number} of {len(images)} ({image.source}): its tokens are not where they belong"
                )
            folded += [*ids[place:start], self.token_id]
            place = start + len(tokens)
        if self.token_id in ids[place:]:
            raise ValueError(f"more image tokens than those of the {len(images)} images")
        return folded + ids[place:]

    def tokens(self, image: EncodedImage) -> tuple[int, ...]:
        """All tokens of an image, those around its pixels included."""
        return self._of(image)[0]

    def tensors(self, images: Sequence[EncodedImage]) -> dict[str, torch.Tensor]:
        """The model's inputs for these images, joined in this order; {} for none."""
        made = [self._of(image)[1] for image in images]
        joined = self.architecture.tensors
        return {name: torch.cat([own[name] for own in made], dim=dim) for name, dim in joined.items()} if made else {}

    def _of(self, image: EncodedImage) -> tuple[tuple[int, ...], dict[str, torch.Tensor]]:
        """Raises ImageError for an image that the model's processor refuses, as some do with long thin ones."""
        if image in self._made:
            self._made.move_to_end(image)
            return self._made[image]
        one = {"text": [self.token], "images": [image.decode()]}
        try:
            made = self.processor(**one, add_special_tokens=False, return_tensors="pt")
        except Exception as error:  # a processor is a program of the model's author and may raise anything
            raise ImageError(f"{image.source}: the model's processor refuses it: {first_line(error)}") from error
        tensors = {name: made[name] for name in self.architecture.tensors}
        self._made[image] = tuple(made["input_ids"][0].tolist()), tensors
        self._bytes += _size(tensors)
        while self._bytes > _CACHE_BYTES and len(self._made) > 1:
            _, (_, oldest) = self._made.popitem(last=False)
            self._bytes -= _size(oldest)
        return self._made[image]


def load_processor(path: str, architecture: VisionArchitecture) -> Any:
    """The processor of a model folder; it holds the tokenizer.

    Raises:
        ModelError: none there, or a package that it needs is missing.
    """
    try:
        return AutoProcessor.from_pretrained(path)
    except (OSError, ValueError, KeyError, TypeError, ImportError) as error:
        needs = " (it needs torchvision; see docs/vision.md)" if architecture.processor == "torchvision" else ""
        raise ModelError(f"model {path!r}: its processor cannot be loaded{needs}: {first_line(error)}") from error


def _find(ids: list[int], tokens: list[int], start: int) -> int | None:
    """Where `tokens` next stand in `ids`."""
    for place in range(start, len(ids) - len(tokens) + 1):
        if ids[place] == tokens[0] and ids[place : place + len(tokens)] == tokens:
            return place
    return None


def _size(tensors: Mapping[str, torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())

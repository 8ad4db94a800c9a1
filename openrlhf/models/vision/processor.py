"""The image side of a vision-language model's processor: tokens and tensors of single images.

What an image is among the tokens takes little room and is kept of every image; its pixels take a lot, and are kept of
the last ones only, and only where a model is to be fed with them.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import torch
from transformers import AutoProcessor, PretrainedConfig

from openrlhf.faults import first_line
from openrlhf.images import ImageError
from openrlhf.models.errors import ModelError
from openrlhf.models.vision.architectures import VisionArchitecture, require_architecture
from openrlhf.models.vision.positions import Grid
from openrlhf.types import EncodedImage

MARK = "<image>"  # what a row or an agent writes for one image, whatever the model
PIXEL_BYTES = 2**29  # that a trainer keeps
_KNOWN_IMAGES = 100_000
_MEDIA = ("image_token_id", "video_token_id", "audio_token_id")


@dataclass(frozen=True, slots=True)
class ImageShape:
    """What an image is among the tokens."""

    tokens: tuple[int, ...]  # all of them, those around its pixels included
    grid: Grid | None  # where positions are on a grid


class VisionProcessor:
    """Implements interfaces.ImageTokens, and makes the tensors of images.

    How an image is expanded depends on nothing but the image: its tokens are those that the processor makes of a text
    that holds the placeholder alone.

    Args:
        max_images: that an episode may show.
        pixel_bytes: of tensors to keep, for whoever asks for those of an image again.

    Raises:
        ModelError: no entry for the architecture, or its processor cannot be loaded.
    """

    def __init__(self, path: str, config: PretrainedConfig, max_images: int, pixel_bytes: int = 0) -> None:
        self.architecture: VisionArchitecture = require_architecture(path, config)
        self.max_images = max_images
        self.processor = load_processor(path, self.architecture)
        self.token: str = self.processor.image_token
        settings = config.to_dict()
        self.token_id = int(settings["image_token_id"])
        self.banned_ids = tuple(sorted({int(settings[name]) for name in _MEDIA if settings.get(name) is not None}))
        self._spatial_merge = int((settings.get("vision_config") or {}).get("spatial_merge_size", 1))
        self._placeholder = self.architecture.placeholder.format(token=self.token)
        self._known: dict[str, ImageShape] = {}  # by the digest of an image
        self._same: dict[ImageShape, ImageShape] = {}  # images of one size share a shape
        self._pixels = _Pixels(pixel_bytes)
        own = self.processor.tokenizer.convert_tokens_to_ids(self.token)
        if own != self.token_id:
            raise ModelError(f"model {path!r}: its config says image token {self.token_id}, its processor {own}")

    @property
    def chat_template(self) -> Any:
        """None where the processor has none of its own; the tokenizer's is the model's then."""
        return self.processor.chat_template

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
        return self._shape(image).tokens

    def grid(self, image: EncodedImage) -> Grid:
        """Rows and columns of its tokens. ValueError for a model whose positions are plain."""
        grid = self._shape(image).grid
        if grid is None:
            raise ValueError(f"{image.source}: positions of this model's images are not on a grid")
        return grid

    def tensors(self, images: Sequence[EncodedImage]) -> dict[str, torch.Tensor]:
        """The model's inputs for these images, joined in this order; {} for none."""
        made = [self._tensors(image) for image in images]
        joined = self.architecture.tensors
        return {name: torch.cat([own[name] for own in made], dim=dim) for name, dim in joined.items()} if made else {}

    def _shape(self, image: EncodedImage) -> ImageShape:
        if not isinstance(image, EncodedImage):  # executors are somebody's code
            raise ImageError(
                f"an image of type {type(image).__name__}; expected an EncodedImage, as read_image makes it"
            )
        digest = image.digest
        if digest not in self._known:
            self._process(image, digest)
        return self._known[digest]

    def _tensors(self, image: EncodedImage) -> dict[str, torch.Tensor]:
        digest = image.digest
        return self._pixels.get(digest) or self._process(image, digest)

    def _process(self, image: EncodedImage, digest: str) -> dict[str, torch.Tensor]:
        """Raises ImageError for a broken image, or one that the model's processor refuses, as some do with long thin
        ones."""
        try:
            one = {"text": [self.token], "images": [image.decode()]}
            made = self.processor(**one, add_special_tokens=False, return_tensors="pt")
        except Exception as error:  # a processor is a program of the model's author and may raise anything
            name = image.source or "an image"
            raise ImageError(f"{name}: the model's processor refuses it: {first_line(error)}") from error
        tensors = {name: made[name] for name in self.architecture.tensors}
        ids = made["input_ids"][0].tolist()
        one_of = {token: token for token in ids}  # as many objects as different tokens: nearly all are the same
        shape = ImageShape(tuple(one_of[token] for token in ids), self._grid_of(tensors))
        if len(self._known) >= _KNOWN_IMAGES:
            del self._known[next(iter(self._known))]
        self._known[digest] = self._same.setdefault(shape, shape)
        self._pixels.put(digest, tensors)
        return tensors

    def _grid_of(self, tensors: Mapping[str, torch.Tensor]) -> Grid | None:
        if self.architecture.positions == "plain":
            return None
        _, height, width = tensors["image_grid_thw"][0].tolist()
        return height // self._spatial_merge, width // self._spatial_merge


class _Pixels:
    """Tensors of the images that were asked for last, up to a number of bytes; of none where that is 0."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._kept: OrderedDict[str, dict[str, torch.Tensor]] = OrderedDict()
        self._bytes = 0

    def get(self, digest: str) -> dict[str, torch.Tensor] | None:
        if digest in self._kept:
            self._kept.move_to_end(digest)
        return self._kept.get(digest)

    def put(self, digest: str, tensors: dict[str, torch.Tensor]) -> None:
        if self._limit == 0 or digest in self._kept:
            return
        self._kept[digest] = tensors
        self._bytes += _size(tensors)
        while self._bytes > self._limit and len(self._kept) > 1:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= _size(oldest)


def load_processor(path: str, architecture: VisionArchitecture) -> Any:
    """The processor of a model folder; it holds the tokenizer.

    Raises:
        ModelError: none there, or a package that it needs is missing.
    """
    try:
        return AutoProcessor.from_pretrained(path)
    except (OSError, ValueError, KeyError, TypeError, ImportError) as error:
        lacking = architecture.processor == "torchvision" and find_spec("torchvision") is None
        needs = " (it needs torchvision; see docs/vision.md)" if lacking else ""
        raise ModelError(f"model {path!r}: its processor cannot be loaded{needs}: {first_line(error)}") from error


def _find(ids: list[int], tokens: list[int], start: int) -> int | None:
    """Where `tokens` next stand in `ids`."""
    for place in range(start, len(ids) - len(tokens) + 1):
        if ids[place] == tokens[0] and ids[place : place + len(tokens)] == tokens:
            return place
    return None


def _size(tensors: Mapping[str, torch.Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())

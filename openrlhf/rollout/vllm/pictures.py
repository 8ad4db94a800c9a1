"""Decoded images on their way to vLLM."""

from collections import OrderedDict
from typing import Any

from openrlhf.types import EncodedImage

LIMIT_BYTES = 2**28


class Pictures:
    """Decodes an image when it is needed, and keeps the last ones: the samples of a prompt share theirs, and so do the
    turns of an episode. Nobody changes them."""

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self._limit = limit_bytes
        self._kept: OrderedDict[EncodedImage, Any] = OrderedDict()
        self._bytes = 0

    def of(self, image: EncodedImage) -> Any:
        """The pixels, as a PIL image of mode RGB."""
        if image in self._kept:
            self._kept.move_to_end(image)
            return self._kept[image]
        picture = image.decode()
        self._kept[image] = picture
        self._bytes += _size(picture)
        while self._bytes > self._limit:
            _, oldest = self._kept.popitem(last=False)
            self._bytes -= _size(oldest)
        return picture


def _size(picture: Any) -> int:
    return 3 * int(picture.width) * int(picture.height)

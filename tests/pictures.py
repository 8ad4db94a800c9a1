"""Small pictures for tests."""

import io
from typing import Any

from openrlhf.images import read_image
from openrlhf.types import EncodedImage


def picture(colour: str = "red", width: int = 30, height: int = 20) -> EncodedImage:
    """One colour all over."""
    return read_image(plain(colour, width, height))


def plain(colour: Any = "red", width: int = 30, height: int = 20, mode: str = "RGB") -> Any:
    """As a PIL image."""
    from PIL import Image

    return Image.new(mode, (width, height), colour)


def file_of(image: Any, kind: str = "PNG", **options: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()

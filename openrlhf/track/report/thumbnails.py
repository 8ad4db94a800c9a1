"""Stored images as the page shows them."""

import base64
import io
from pathlib import Path

from openrlhf.images import ImageError, read_image

SIDE = 256  # pixels, at most; the page shows them no larger


def thumbnail(folder: Path, name: str) -> str | None:
    """A data address; None where the file is gone or broken, or its name leads out of the folder."""
    path = folder / name
    if Path(name).name != name or not path.is_file():
        return None
    try:
        picture = read_image(path).decode()
    except ImageError:
        return None
    picture.thumbnail((SIDE, SIDE))
    kind = "jpeg" if path.suffix == ".jpg" else "png"  # drawings stay sharp, photos small
    buffer = io.BytesIO()
    picture.save(buffer, kind)
    return f"data:image/{kind};base64,{base64.b64encode(buffer.getvalue()).decode()}"

"""Images on their way in: read, checked and made upright RGB once, so that every later reader sees the same pixels.

    a path, http(s) or data address, bytes, a PIL image, or `datasets`' {"bytes": ..., "path": ...}  ->  EncodedImage

| what comes | what becomes of it |
|---|---|
| PNG or JPEG, RGB, upright | its bytes, untouched |
| turned by EXIF | turned upright |
| palette, grey, CMYK, ... | converted to RGB |
| with transparency | laid on white |
| animated, or of several pages | refused; a camera's MPO counts as its first picture |
| 16 or 32 bits per channel | refused: how it maps to 8 bits is not ours to guess |
| a side under 4 pixels | refused: processors take a side of 1 or 3 for the colour channels |
| over 64 MiB, or 67 million pixels | refused |
"""

import base64
import http.client
import io
import re
import socket
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openrlhf.types import EncodedImage

if TYPE_CHECKING:
    from PIL import Image

MAX_BYTES = 64 * 2**20
MAX_PIXELS = 2**26
MIN_SIDE = 4
SILENCE_S = 30.0  # seconds that a server may say nothing
DOWNLOAD_S = 120.0  # seconds that all of an image may take: a server that sends a byte now and then is never silent
PAUSES_S = (1.0, 3.0)  # before another try, where a server or the network may be better then
_ORIENTATION = 0x0112  # EXIF tag
_EIGHT_BITS = {"1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", "LAB", "HSV"}
_CHUNK = 2**16  # bytes of a download between two looks at the clock
_SHOWN = 100  # characters of an address in a message


class ImageError(ValueError):
    """An image that cannot be used. One line: its source, and why."""


def read_image(value: Any, *folders: Path, fetched: dict[str, EncodedImage] | None = None) -> EncodedImage:
    """Read one image.

    Args:
        folders: where relative paths start, the first that has something there; else in the working directory.
        fetched: images by their http(s) address; what is there is not fetched again, and what is fetched is put there.

    Raises:
        ImageError: nothing there, not an image, or one of those in the table above.
    """
    address = _web_address(value)
    if fetched is None or address is None:
        return _read(value, folders)
    if address not in fetched:
        fetched[address] = _read(value, folders)
    return fetched[address]


def _read(value: Any, folders: tuple[Path, ...]) -> EncodedImage:
    from PIL import Image

    if isinstance(value, EncodedImage):
        return value
    in_memory = isinstance(value, Image.Image)
    data, source = (None, "an image in memory") if in_memory else _bytes(value, folders)
    try:
        if data is None:
            return _checked(value, None, source)
        with Image.open(io.BytesIO(data)) as image:
            return _checked(image, data, source)
    except ImageError:
        raise
    except Image.UnidentifiedImageError as error:
        raise ImageError(f"{source}: not an image, or of a format that Pillow does not know") from error
    except Exception as error:  # decoders of broken files raise anything, struct.error and SyntaxError among it
        raise ImageError(f"{source}: a broken image: {_reason(error)}") from error


def read_images(value: Any, *folders: Path) -> tuple[EncodedImage, ...]:
    """Those of a row: a list, a single one, or none (see `listed`). Raises ImageError as `read_image`."""
    return tuple(read_image(item, *folders) for item in listed(value))


def listed(value: Any) -> tuple[Any, ...]:
    """The images of a row, unread: those of a list, or a single one.

    None is no image, and so is what a table has in an empty cell: "" in csv, an object without values elsewhere. In a
    list they stay what they are, images that cannot be used.
    """
    if isinstance(value, list | tuple):
        return tuple(value)
    empty = isinstance(value, Mapping) and all(_is_nothing(inner) for inner in value.values())
    return () if empty or _is_nothing(value) else (value,)


def _is_nothing(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip())


def size_of(image: EncodedImage) -> tuple[int, int]:
    """Width and height in pixels, which are not decoded for it."""
    from PIL import Image

    with Image.open(io.BytesIO(image.data)) as opened:
        return opened.size


def _web_address(value: Any) -> str | None:
    """The http(s) address at which an image lies; None for one that is elsewhere."""
    if isinstance(value, Mapping) and value.get("bytes") is None:
        value = value.get("path")
    return value if isinstance(value, str) and _scheme(value) in ("http", "https") else None


def _scheme(text: str) -> str:
    """In small letters; "" where a path has none."""
    scheme, colon, _ = text.partition(":")
    return scheme.lower() if colon else ""


def _bytes(value: Any, folders: tuple[Path, ...]) -> tuple[bytes, str]:
    """The bytes of a file, and what to call it."""
    if isinstance(value, Mapping):
        return _bytes_of_mapping(value, folders)
    if isinstance(value, bytes | bytearray | memoryview):
        return _bounded(bytes(value), "bytes"), "bytes"
    if isinstance(value, Path):
        return _file(str(value), folders)
    if not isinstance(value, str):
        raise ImageError(f"an image of type {type(value).__name__}: expected a path, address, bytes or PIL image")
    if _scheme(value) == "data":
        return _data_address(value)
    if _scheme(value) in ("http", "https"):
        return _download(value), _shown(value)
    return _file(_path_of(value) if _scheme(value) == "file" else value, folders)


def _path_of(address: str) -> str:
    """`file:///a%20b.png` -> `/a b.png`; the host may be localhost."""
    path = address[len("file:") :].removeprefix("//")
    host, slash, rest = path.partition("/")
    return urllib.parse.unquote(slash + rest if host.lower() == "localhost" else path)


def _bytes_of_mapping(value: Mapping[Any, Any], folders: tuple[Path, ...]) -> tuple[bytes, str]:
    inner, path = value.get("bytes"), value.get("path")
    source = _shown(str(path or "bytes"))
    if isinstance(inner, bytes | bytearray | memoryview):
        return _bounded(bytes(inner), source), source
    if inner is not None:
        raise ImageError(f"{source}: its 'bytes' are of type {type(inner).__name__}, expected bytes")
    if path is None:
        raise ImageError(f"an image given as an object with {', '.join(map(str, value)) or 'nothing'}: no bytes")
    if not isinstance(path, str | Path):
        raise ImageError(f"an image given as an object with a 'path' of type {type(path).__name__}, expected text")
    return _bytes(path, folders)


def _file(name: str, folders: tuple[Path, ...]) -> tuple[bytes, str]:
    source = _brief(name)
    try:
        given = Path(name).expanduser()
        beside = [folder / given for folder in folders]  # an absolute path stays what it is
        path = next((path for path in beside if path.exists()), given)
        if path.exists() and not (path.is_file() or path.is_dir()):  # reading a pipe or a device may never end
            raise ImageError(f"{source}: not a regular file")
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except ImageError:
        raise
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: ~ of a user that does not exist
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ImageError(f"{source}: {reason}") from error
    return _bounded(data, source), source


def _data_address(value: str) -> tuple[bytes, str]:
    head, comma, body = value.partition(",")
    source = _brief(head)
    if not comma or not head.lower().endswith(";base64"):
        raise ImageError(f"{source}: a data address must be data:image/...;base64,...")
    try:
        data = base64.b64decode(body, validate=True)
    except ValueError as error:
        raise ImageError(f"{source}: not base64: {error}") from error
    return _bounded(data, source), source


def _download(address: str) -> bytes:
    source = _shown(address)
    if "@" in urllib.parse.unquote(_authority(address)):
        raise ImageError(f"{source}: its address has a user name, which is not sent; download it, and give its path")
    deadline, pauses = time.monotonic() + DOWNLOAD_S, list(PAUSES_S)
    while True:
        try:
            return _bounded(_fetch(address, deadline), source)
        except ImageError:
            raise
        except Exception as error:  # besides OSError: HTTPException for an answer, or an address, that is none, ...
            if not (pauses and _may_pass(error) and time.monotonic() + pauses[0] < deadline):
                raise ImageError(f"{source}: cannot be fetched: {_why(error)}") from error
        time.sleep(pauses.pop(0))


def _fetch(address: str, deadline: float) -> bytes:
    """One try. `deadline`: of time.monotonic()."""
    data = bytearray()
    left = max(deadline - time.monotonic(), 0.001)
    with urllib.request.urlopen(address, timeout=min(SILENCE_S, left)) as answer:
        while len(data) <= MAX_BYTES and (part := answer.read1(_CHUNK)):
            data += part
            if time.monotonic() > deadline:
                raise TimeoutError(f"not whole after {DOWNLOAD_S:g} s")
        if answer.length:  # `read1` ends quietly where the connection does
            raise http.client.IncompleteRead(bytes(data), answer.length)
    return bytes(data)


def _may_pass(error: Exception) -> bool:
    """Whether another try may go better: of a busy or broken server, or a connection that failed."""
    if isinstance(error, urllib.error.HTTPError):
        return error.code == 429 or error.code >= 500
    if isinstance(error, urllib.error.URLError):
        unknown = isinstance(error.reason, socket.gaierror) and error.reason.errno != socket.EAI_AGAIN  # no such host
        return isinstance(error.reason, OSError) and not unknown
    return isinstance(error, OSError | http.client.IncompleteRead)  # time-outs are OSErrors


def _why(error: Exception) -> str:
    """Without the address, which the texts of these two may repeat with its secrets."""
    if isinstance(error, urllib.error.HTTPError):
        redirected = " (a redirect that is not followed)" if 300 <= error.code < 400 else ""
        return f"HTTP Error {error.code}: {http.client.responses.get(error.code, 'unknown')}{redirected}"
    if isinstance(error, http.client.InvalidURL | ValueError):
        return "URL is not valid: white space or other signs in it that must be written as %.., or a bad host or port"
    return _reason(error)


def _bounded(data: bytes, source: str) -> bytes:
    if len(data) > MAX_BYTES:
        raise ImageError(f"{source}: over the {MAX_BYTES} bytes that an image may have")
    return data


def _checked(image: "Image.Image", data: bytes | None, source: str) -> EncodedImage:
    """`data`: the file that the image was opened from; kept where nothing has to change."""
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise ImageError(f"{source}: {width} x {height} pixels, over the {MAX_PIXELS} that an image may have")
    if min(width, height) < MIN_SIDE:
        raise ImageError(f"{source}: {width} x {height} pixels; a side needs at least {MIN_SIDE}")
    if image.mode not in _EIGHT_BITS or _loses_bits(image):
        raise ImageError(f"{source}: mode {image.mode}, not 8 bits per channel in the file; convert it first")
    if image.format != "MPO" and _has_second_frame(image):
        raise ImageError(f"{source}: animated, or of several pages; give one picture")
    image.seek(0)
    image.load()
    turned = image.getexif().get(_ORIENTATION, 1) not in (0, 1)
    plain = image.mode == "RGB" and not turned and not image.has_transparency_data
    if plain and data is not None and image.format in ("PNG", "JPEG"):
        return EncodedImage(data, source)
    buffer = io.BytesIO()
    _upright_rgb(image).save(buffer, "PNG")
    return EncodedImage(buffer.getvalue(), source)


def _loses_bits(image: "Image.Image") -> bool:
    """Whether Pillow will cut channels of more bits down to 8, which the mode does not tell: it opens a PNG of 48 bits
    per pixel as RGB. The decoders that it has chosen tell."""
    from PIL import ImageFile

    tiles = image.tile if isinstance(image, ImageFile.ImageFile) else []
    for codec, _, _, arguments in tiles:
        wide_ppm = codec.startswith("ppm") and isinstance(arguments, tuple) and arguments[1] > 255  # its largest value
        if wide_ppm or codec == "SGI16" or ";16" in str(arguments):
            return True
    return False


def _has_second_frame(image: "Image.Image") -> bool:
    try:
        image.seek(1)
    except EOFError:
        return False
    return True


def _upright_rgb(image: "Image.Image") -> "Image.Image":
    from PIL import Image, ImageOps

    upright = ImageOps.exif_transpose(image)
    if not upright.has_transparency_data:
        plain = upright.convert("RGB")
    else:
        canvas = Image.new("RGBA", upright.size, "white")
        canvas.alpha_composite(upright.convert("RGBA"))
        plain = canvas.convert("RGB")
    return Image.frombytes("RGB", plain.size, plain.tobytes())  # without EXIF, profiles and comments


def _reason(error: Exception) -> str:
    return " ".join(str(error).split()) or type(error).__name__


def _brief(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _shown(name: str) -> str:
    """A path or address for messages: of an address neither user name nor query, which may be secrets."""
    if _scheme(name) in ("http", "https"):
        place = _authority(name)
        path = name.partition("://")[2][len(place) :]
        name = f"{_scheme(name)}://{place.rpartition('@')[2]}{path.partition('?')[0].partition('#')[0]}"
    return _brief(name)


def _authority(address: str) -> str:
    """Host, port and user name of an address."""
    return re.split("[/?#]", address.partition("://")[2], maxsplit=1)[0]

"""Frames between the host and the supervisor: a JSON header and raw byte blobs, no pickles.

    frame = !II header length, blobs length | header (JSON object, its "blobs" lists the lengths) | blobs

Only the two trusted sides speak it; what an answer writes travels inside blobs and is never parsed here.
"""

import json
import os
import struct
from collections.abc import Sequence
from typing import Any

HEAD = struct.Struct("!II")
Frame = tuple[dict[str, Any], list[bytes]]


def pack(header: dict[str, Any], blobs: Sequence[bytes] = ()) -> bytes:
    """One frame. `header` is JSON data and must not use the key "blobs"."""
    text = json.dumps({**header, "blobs": [len(blob) for blob in blobs]}).encode()
    return b"".join((HEAD.pack(len(text), sum(map(len, blobs))), text, *blobs))


def unpack(text: bytes, body: bytes) -> Frame:
    """Header and blobs of one frame. Raises ValueError when the lengths do not add up."""
    header = json.loads(text.decode())  # decoding first spares json's guess at the encoding
    blobs, start = [], 0
    for size in header.pop("blobs"):
        blobs.append(body[start : start + size])
        start += size
    if start != len(body):
        raise ValueError(f"frame holds {len(body)} bytes of blobs; its header names {start}")
    return header, blobs


def read_frame(fd: int) -> Frame:
    """Block until one frame is read, and read not one byte more. Raises EOFError when the writer is gone."""
    header_size, body_size = HEAD.unpack(read_exactly(fd, HEAD.size))
    data = read_exactly(fd, header_size + body_size)
    return unpack(data[:header_size], data[header_size:])


def read_exactly(fd: int, size: int) -> bytes:
    """Block until `size` bytes are read. Raises EOFError when the writer is gone before that."""
    part = os.read(fd, min(size, 1 << 20))
    if len(part) == size:  # nearly always
        return part
    parts = [part]
    size -= len(part)
    while size:
        part = os.read(fd, min(size, 1 << 20)) if part else b""
        if not part:
            raise EOFError("the other side closed the channel")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def write_all(fd: int, data: bytes) -> None:
    """Block until everything is written."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


class FrameBuffer:
    """Frames out of a byte stream that arrives in pieces; does no I/O.

    Args:
        max_bytes: a frame that announces more than this is refused with ValueError.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._data = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """Add bytes; return the frames that are now complete."""
        self._data += data
        frames = []
        while len(self._data) >= HEAD.size:
            header_size, body_size = HEAD.unpack_from(self._data)
            if header_size + body_size > self._max_bytes:
                raise ValueError(f"frame of {header_size + body_size} bytes; at most {self._max_bytes} are taken")
            end = HEAD.size + header_size + body_size
            if len(self._data) < end:
                break
            middle = HEAD.size + header_size
            frames.append(unpack(bytes(self._data[HEAD.size : middle]), bytes(self._data[middle:end])))
            del self._data[:end]
        return frames

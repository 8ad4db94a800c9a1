"""How the weights lie in a transfer: packed end to end, each tensor at a multiple of 64 bytes, in chunks.

A chunk is one buffer. A tensor never crosses from one chunk to the next, and offsets count from the first chunk's
first byte, so a transport with a single buffer sees one chunk and a plain file.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch

from openrlhf.types import TensorSpec

ALIGNMENT = 64  # bytes; a cache line, and more than any dtype needs
TORCH_DTYPES = {
    "bf16": torch.bfloat16,
    "bfloat16": torch.bfloat16,
    "fp16": torch.float16,
    "float16": torch.float16,
    "fp32": torch.float32,
    "float32": torch.float32,
}


class Chunk(NamedTuple):
    """Tensors [first, end) in bytes [start, stop)."""

    first: int
    end: int
    start: int
    stop: int

    @property
    def num_bytes(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, slots=True)
class WireFormat:
    """The dtype in which each tensor travels.

    Floating weights go in the engine's, as most of them would be stored there. A model that holds a few in a wider
    format than the others needs their digits: experts are chosen by biases that lie closer together than bf16 can tell.
    The engine casts such a tensor if it holds it otherwise.
    """

    engine: torch.dtype
    model: torch.dtype | None = None  # of the trained model's weights but those few; None: none is wider

    def of(self, tensor: torch.Tensor) -> torch.dtype:
        """Only the tensor's dtype is read."""
        if not tensor.is_floating_point():
            return tensor.dtype
        wider = self.model is not None and tensor.dtype.itemsize > self.model.itemsize
        return tensor.dtype if wider else self.engine


@dataclass
class Layout:
    """Grows one tensor at a time.

    Example: fp32 tensors of 10 and 3 elements lie at offsets 0 and 64, and the layout ends at 128.
    """

    wire: WireFormat
    chunk_bytes: int | None = None  # None: one chunk
    specs: list[TensorSpec] = field(default_factory=list)
    chunks: list[Chunk] = field(default_factory=list)

    @classmethod
    def of(cls, weights: Iterable[tuple[str, Any]], wire: WireFormat, chunk_bytes: int | None = None) -> "Layout":
        """Lay out weights of which only shapes and dtypes are read; meta tensors will do."""
        layout = cls(wire, chunk_bytes)
        for name, tensor in weights:
            layout.add(name, tensor)
        return layout

    @property
    def num_bytes(self) -> int:
        return self.chunks[-1].stop if self.chunks else 0

    def add(self, name: str, tensor: torch.Tensor) -> TensorSpec:
        """Place one tensor after the last."""
        dtype = self.wire.of(tensor)
        padded = -(-tensor.numel() * dtype.itemsize // ALIGNMENT) * ALIGNMENT
        last = self.chunks[-1] if self.chunks else None
        offset = self.num_bytes
        index = len(self.specs)
        if last is None or (self.chunk_bytes is not None and last.num_bytes + padded > self.chunk_bytes):
            self.chunks.append(Chunk(index, index + 1, offset, offset + padded))
        else:
            self.chunks[-1] = Chunk(last.first, index + 1, last.start, offset + padded)
        spec = TensorSpec(name, tuple(tensor.shape), str(dtype).removeprefix("torch."), offset)
        self.specs.append(spec)
        return spec


def write_tensor(data: torch.Tensor, offset: int, tensor: torch.Tensor, dtype: torch.dtype) -> None:
    """Copy a tensor into a uint8 buffer, cast to `dtype`; works across devices."""
    num_bytes = tensor.numel() * dtype.itemsize
    data[offset : offset + num_bytes].view(dtype).view(tensor.shape).copy_(tensor)

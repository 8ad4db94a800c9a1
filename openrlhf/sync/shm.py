"""Weights through shared memory, for trainers and engines on one host.

The trainer owns an anonymous memory file (memfd). Engines open it as `/proc/<pid>/fd/<fd>`, so it has no name that
could outlive a crash: the kernel frees it with its last user. The file is kept between syncs; only its first use
pays for the pages.
"""

import os
from collections.abc import Iterable
from typing import Any

import torch

from openrlhf.sync.layout import Layout, WireFormat, write_tensor
from openrlhf.types import TransferManifest

FIRST_CAPACITY = 2**20  # bytes; doubles as needed


class SharedMemorySender:
    """Implements interfaces.WeightSender. Use from one process; engines need the same user and PID namespace."""

    streaming = False

    def __init__(self, dtype: torch.dtype, model_dtype: torch.dtype | None = None) -> None:
        self._wire = WireFormat(dtype, model_dtype)
        self._fd: int | None = None
        self._data = torch.empty(0, dtype=torch.uint8)
        self._unreleased: int | None = None  # version of a transfer that engines may still read

    def describe(self, weights: Iterable[tuple[str, Any]], version: int) -> TransferManifest:
        """Return the manifest of a transfer without moving bytes; its location is empty."""
        return TransferManifest("shm", version, tuple(Layout.of(weights, self._wire).specs))

    def send(self, weights: Iterable[tuple[str, Any]], version: int) -> TransferManifest:
        """Write all weights and say where they lie. RuntimeError if the last transfer was not released."""
        if self._unreleased is not None:
            raise RuntimeError(
                f"shm weight transfer {version}: engines may still read transfer {self._unreleased}; release() it first"
            )
        layout = Layout(self._wire)
        for name, tensor in weights:
            spec = layout.add(name, tensor)
            self._reserve(layout.num_bytes)
            write_tensor(self._data, spec.offset, tensor.detach(), self._wire.of(tensor))
        if not layout.specs:
            raise ValueError(f"shm weight transfer {version}: no weights to send")
        self._unreleased = version
        location = {
            "pid": os.getpid(),
            "fd": self._fd,
            "num_bytes": layout.num_bytes,
            "chunks": [list(chunk) for chunk in layout.chunks],
        }
        return TransferManifest("shm", version, tuple(layout.specs), location)

    def release(self) -> None:
        """The engines are done reading: the memory may be overwritten."""
        self._unreleased = None

    def close(self) -> None:
        """Give the memory back once the last engine has unmapped it."""
        self._data = torch.empty(0, dtype=torch.uint8)
        self._unreleased = None
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def _reserve(self, num_bytes: int) -> None:
        """Make the file at least that long, keeping its contents."""
        if num_bytes <= len(self._data):
            return
        capacity = max(FIRST_CAPACITY, len(self._data))
        while capacity < num_bytes:
            capacity *= 2
        if self._fd is None:
            self._fd = os.memfd_create("policy-weights", os.MFD_CLOEXEC)
        os.ftruncate(self._fd, capacity)
        self._data = torch.from_file(f"/proc/self/fd/{self._fd}", shared=True, size=capacity, dtype=torch.uint8)

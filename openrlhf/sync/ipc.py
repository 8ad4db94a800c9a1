"""Weights through CUDA IPC, for engines on the same GPUs as the policy.

Every policy process packs the weights into buffers on its own GPU and exports handles under the GPU's UUID; the
engine worker on that GPU opens them without a copy. The driver merges the manifests of all ranks:

    manifest = merge_manifests([sender.send(weights, version) for each rank])

The packed copy costs one model's worth of GPU memory (in the engine's dtype) until `release()`. PyTorch's
`expandable_segments` allocator cannot export memory; leave it off.
"""

import pickle
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.multiprocessing.reductions import reduce_tensor

from openrlhf.sync.layout import Layout, WireFormat, write_tensor
from openrlhf.types import TransferManifest

CHUNK_BYTES = 2**28


class CudaIpcSender:
    """Implements interfaces.WeightSender on every policy rank; each serves the engine workers on its own GPU."""

    streaming = False

    def __init__(
        self,
        dtype: torch.dtype,
        device: torch.device,
        chunk_bytes: int = CHUNK_BYTES,
        model_dtype: torch.dtype | None = None,
    ) -> None:
        self._wire = WireFormat(dtype, model_dtype)
        self._device = device
        self._chunk_bytes = chunk_bytes
        self._buffers: list[torch.Tensor] = []  # alive while engines read them

    def describe(self, weights: Iterable[tuple[str, Any]], version: int) -> TransferManifest:
        """Return the manifest of a transfer without moving bytes; its location is empty."""
        return TransferManifest("ipc", version, tuple(Layout.of(weights, self._wire, self._chunk_bytes).specs))

    def send(self, weights: Iterable[tuple[str, Any]], version: int) -> TransferManifest:
        """Pack all weights on this GPU and export them. RuntimeError if the last transfer was not released."""
        if self._buffers:
            raise RuntimeError(f"ipc weight transfer {version}: release() the last transfer first")
        layout = Layout(self._wire, self._chunk_bytes)
        for name, tensor in weights:
            spec = layout.add(name, tensor)
            chunk = layout.chunks[-1]
            if len(layout.chunks) > len(self._buffers):
                size = max(self._chunk_bytes, chunk.num_bytes)  # one large tensor may exceed a chunk
                self._buffers.append(torch.empty(size, dtype=torch.uint8, device=self._device))
            write_tensor(self._buffers[-1], spec.offset - chunk.start, tensor.detach(), self._wire.of(tensor))
        torch.cuda.synchronize(self._device)  # readers in other processes do not see our stream
        uuid = str(torch.cuda.get_device_properties(self._device).uuid)
        location = {
            "chunks": [list(chunk) for chunk in layout.chunks],
            "handles": {uuid: [pickle.dumps(reduce_tensor(buffer)) for buffer in self._buffers]},
        }
        return TransferManifest("ipc", version, tuple(layout.specs), location)

    def release(self) -> None:
        """The engines are done reading: free the packed copy."""
        self._buffers.clear()
        torch.cuda.ipc_collect()

    def close(self) -> None:
        self.release()


def merge_manifests(manifests: Sequence[TransferManifest]) -> TransferManifest:
    """Join what the ranks exported into one manifest; ValueError if they do not hold the same weights."""
    first = manifests[0]
    handles: dict[str, list[bytes]] = {}
    for manifest in manifests:
        same = (manifest.version, manifest.tensors, manifest.location["chunks"])
        if same != (first.version, first.tensors, first.location["chunks"]):
            raise ValueError(f"ipc weight transfer {first.version}: the policy ranks exported different weights")
        handles.update(manifest.location["handles"])
    return replace(first, location={**first.location, "handles": handles})

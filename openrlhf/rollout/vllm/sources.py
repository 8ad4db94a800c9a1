"""Read the tensors of a transfer: from shared memory, from another process's GPU memory, or from a broadcast.

All three see the same picture: chunks of bytes, laid end to end, in which each TensorSpec has an offset.
`manifest.location["chunks"]` lists (first tensor, end tensor, first byte, end byte) of every chunk.
"""

import math
import pickle
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from openrlhf.types import TensorSpec, TransferManifest

NamedTensor = tuple[str, torch.Tensor]


def tensors_of_chunk(manifest: TransferManifest, chunk: Any, data: torch.Tensor) -> Iterator[NamedTensor]:
    """Yield views of the tensors that lie in one chunk; `data` holds its bytes (uint8)."""
    first, end, start, _ = chunk
    for spec in manifest.tensors[first:end]:
        yield spec.name, _view(spec, data, spec.offset - start)


def _view(spec: TensorSpec, data: torch.Tensor, offset: int) -> torch.Tensor:
    dtype: torch.dtype = torch.__dict__[spec.dtype]
    num_bytes = math.prod(spec.shape) * dtype.itemsize
    return data[offset : offset + num_bytes].view(dtype).view(spec.shape)


def shared_memory_source(manifest: TransferManifest) -> Iterator[NamedTensor]:
    """Map the trainer's anonymous memory file; the views are valid until the iterator is dropped.

    OSError if the trainer's process is gone or belongs to another user.
    """
    location = manifest.location
    path = f"/proc/{location['pid']}/fd/{location['fd']}"
    data = torch.from_file(path, shared=True, size=location["num_bytes"], dtype=torch.uint8)
    for chunk in location["chunks"]:
        yield from tensors_of_chunk(manifest, chunk, data)


def ipc_source(manifest: TransferManifest, device: torch.device) -> Iterator[NamedTensor]:
    """Open the buffers that a trainer process holds on this very GPU, found by the GPU's UUID.

    RuntimeError if no trainer process exported one: CUDA IPC is for engines colocated with the policy.
    """
    uuid = str(torch.cuda.get_device_properties(device).uuid)
    handles: Mapping[str, list[bytes]] = manifest.location["handles"]
    if uuid not in handles:
        raise RuntimeError(f"no weights were exported on GPU {uuid}, only on {sorted(handles)}: use sync_backend nccl")
    for chunk, handle in zip(manifest.location["chunks"], handles[uuid], strict=True):
        rebuild, arguments = pickle.loads(handle)
        arguments = list(arguments)
        arguments[6] = device.index  # the exporter may count its devices differently
        yield from tensors_of_chunk(manifest, chunk, rebuild(*arguments))


@dataclass(frozen=True)
class BroadcastGroup:
    """This worker's seat in the group trainer + every worker of every engine. NCCL on GPU, gloo on CPU."""

    address: tuple[str, int]
    group: Any
    store: dist.Store  # the group lives as long as its store

    @staticmethod
    def address_of(manifest: TransferManifest) -> tuple[str, int]:
        return manifest.location["host"], manifest.location["port"]

    @classmethod
    def join(cls, manifest: TransferManifest, rank: int, device: torch.device) -> "BroadcastGroup":
        """Meet the sender (rank 0) and all other workers at the sender's store; mirrors sync/nccl.py."""
        location = manifest.location
        address = cls.address_of(manifest)
        timeout = timedelta(seconds=location["timeout"])
        store = dist.TCPStore(*address, is_master=False, timeout=timeout, wait_for_workers=False)
        prefixed = dist.PrefixStore("policy-weights", store)
        group: Any
        if device.type == "cuda":
            torch.cuda.set_device(device)
            options = dist.ProcessGroupNCCL.Options()
            options._timeout = timeout
            group = dist.ProcessGroupNCCL(prefixed, rank, location["world_size"], options)
        else:
            group = dist.ProcessGroupGloo(prefixed, rank, location["world_size"], timeout)
        return cls(address, group, store)

    def receive(self, data: torch.Tensor) -> None:
        """Fill `data` with what rank 0 broadcasts."""
        options = dist.BroadcastOptions()
        options.rootRank = 0
        options.rootTensor = 0
        self.group.broadcast([data], options).wait()


def broadcast_source(manifest: TransferManifest, device: torch.device, group: BroadcastGroup) -> Iterator[NamedTensor]:
    """Receive chunk after chunk. The loader may keep views of a chunk until its layer is complete."""
    for chunk in manifest.location["chunks"]:
        data = torch.empty(chunk[3] - chunk[2], dtype=torch.uint8, device=device)
        group.receive(data)
        yield from tensors_of_chunk(manifest, chunk, data)

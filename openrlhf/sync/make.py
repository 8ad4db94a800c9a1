"""Choose the sender for a resolved `vllm.sync_backend`."""

from typing import Literal

import torch

from openrlhf.interfaces import WeightSender
from openrlhf.sync.ipc import CudaIpcSender
from openrlhf.sync.layout import TORCH_DTYPES
from openrlhf.sync.nccl import BroadcastSender
from openrlhf.sync.shm import SharedMemorySender


def make_sender(
    backend: Literal["shm", "ipc", "nccl"],
    dtype: str,
    *,
    model_dtype: torch.dtype | None = None,
    device: torch.device | None = None,
    host: str = "127.0.0.1",
    num_receivers: int = 1,
    timeout: float = 600.0,
) -> WeightSender:
    """Return the sending side of a weight transfer.

    `dtype` is the engine's (`vllm.dtype`): weights are cast as they are sent, but for those that the model holds in a
    wider format than `model_dtype`, which the others have. `device` is the policy process's GPU (ipc, nccl). nccl also
    needs this machine's address, the number of engine workers (engines times tensor parallel
    size) and a timeout in seconds. ValueError names an unknown dtype.
    """
    if dtype not in TORCH_DTYPES:
        raise ValueError(f"weight transfer: unknown dtype {dtype!r}, known are {sorted(TORCH_DTYPES)}")
    torch_dtype = TORCH_DTYPES[dtype]
    if backend == "shm":
        return SharedMemorySender(torch_dtype, model_dtype)
    device = device or torch.device("cuda", torch.cuda.current_device())
    if backend == "ipc":
        return CudaIpcSender(torch_dtype, device, model_dtype=model_dtype)
    return BroadcastSender(torch_dtype, device, host, num_receivers, timeout, model_dtype=model_dtype)

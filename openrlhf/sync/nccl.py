"""Weights by broadcast, for engines on other GPUs than the policy.

The group has 1 + engines * tensor_parallel_size seats: the policy's rank 0 is seat 0, worker w of engine e is seat
1 + e * tensor_parallel_size + w. NCCL carries it on GPU; on CPU gloo runs the same code, which is how it is tested
without a GPU. Both sides must run at once:

    manifest = sender.describe(weights, version)      # cheap: shapes and the address to meet at
    start engine.receive_weights(manifest) everywhere
    sender.send(weights, version)

A plain torch process group serves instead of vLLM's communicator: this room may not import vLLM, and the receiver
(rollout/vllm/sources.py) joins the same way.
"""

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from openrlhf.sync.layout import Layout, WireFormat, write_tensor
from openrlhf.types import TransferManifest

CHUNK_BYTES = 2**28


class BroadcastSender:
    """Implements interfaces.WeightSender; the group forms at the first send and is kept."""

    streaming = True

    def __init__(
        self,
        dtype: torch.dtype,
        device: torch.device,
        host: str,
        num_receivers: int,
        timeout: float,
        chunk_bytes: int = CHUNK_BYTES,
        model_dtype: torch.dtype | None = None,
    ) -> None:
        """`host`: this machine's address as the engines see it. `timeout`: seconds that any wait may take."""
        self._wire = WireFormat(dtype, model_dtype)
        self._device = device
        self._host = host
        self._world_size = 1 + num_receivers
        self._timeout = timedelta(seconds=timeout)
        self._chunk_bytes = chunk_bytes
        self._store: dist.TCPStore | None = None
        self._group: Any = None

    def describe(self, weights: Iterable[tuple[str, Any]], version: int) -> TransferManifest:
        """Open the meeting point and say what will come. Only shapes and dtypes of the weights are read."""
        if self._store is None:  # port 0: the system picks a free one
            self._store = dist.TCPStore(self._host, 0, is_master=True, timeout=self._timeout, wait_for_workers=False)
        return self._manifest(Layout.of(weights, self._wire, self._chunk_bytes), version)

    def send(self, weights: Iterable[tuple[str, Any]], version: int) -> TransferManifest:
        """Broadcast all weights, chunk after chunk; returns when the last one has left.

        RuntimeError without a `describe` before it, or if the engines do not come within the timeout.
        """
        if self._store is None:
            raise RuntimeError(f"nccl weight transfer {version}: describe() comes first, the engines need its manifest")
        if self._group is None:
            self._group = self._join(self._store)
        layout = Layout(self._wire, self._chunk_bytes)
        pending: list[tuple[int, torch.Tensor]] = []
        for name, tensor in weights:
            chunks_before = len(layout.chunks)
            spec = layout.add(name, tensor)
            if len(layout.chunks) > chunks_before and pending:
                self._broadcast(pending, layout.chunks[-2].num_bytes)
                pending = []
            pending.append((spec.offset - layout.chunks[-1].start, tensor.detach()))
        if pending:
            self._broadcast(pending, layout.chunks[-1].num_bytes)
        return self._manifest(layout, version)

    def release(self) -> None:
        """Nothing is shared after a broadcast."""

    def close(self) -> None:
        """Leave the group; the next describe() opens another."""
        self._group = None
        self._store = None

    def _manifest(self, layout: Layout, version: int) -> TransferManifest:
        assert self._store is not None
        location = {
            "host": self._host,
            "port": self._store.port,
            "world_size": self._world_size,
            "timeout": self._timeout.total_seconds(),
            "chunks": [list(chunk) for chunk in layout.chunks],
        }
        return TransferManifest("nccl", version, tuple(layout.specs), location)

    def _join(self, store: dist.Store) -> Any:
        """Take seat 0; mirrors BroadcastGroup.join on the engine's side."""
        prefixed = dist.PrefixStore("policy-weights", store)
        if self._device.type != "cuda":
            return dist.ProcessGroupGloo(prefixed, 0, self._world_size, self._timeout)
        torch.cuda.set_device(self._device)
        options = dist.ProcessGroupNCCL.Options()
        options._timeout = self._timeout
        return dist.ProcessGroupNCCL(prefixed, 0, self._world_size, options)

    def _broadcast(self, tensors: list[tuple[int, torch.Tensor]], num_bytes: int) -> None:
        data = torch.empty(num_bytes, dtype=torch.uint8, device=self._device)
        for offset, tensor in tensors:
            write_tensor(data, offset, tensor, self._wire.of(tensor))
        options = dist.BroadcastOptions()
        options.rootRank = 0
        options.rootTensor = 0
        self._group.broadcast([data], options).wait()
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

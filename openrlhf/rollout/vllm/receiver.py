"""The receiving side of a weight sync, inside every worker process of an engine.

vLLM mixes `WeightReceiver` into its worker class (`worker_extension_cls`). The weights arrive under their HF names,
without a tied output head, and go through the model's own loader:

    transfer -> (name, tensor) -> model.load_weights under layerwise reload -> repack tied heads -> check
"""

from collections.abc import Iterable
from typing import Any

import torch
from vllm.config import set_current_vllm_config
from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead
from vllm.model_executor.model_loader.reload import finalize_layerwise_reload, initialize_layerwise_reload

from openrlhf.rollout.vllm.executor import end_with_parent
from openrlhf.rollout.vllm.sources import BroadcastGroup, broadcast_source, ipc_source, shared_memory_source
from openrlhf.types import TensorSpec, TransferManifest


class WeightReceiver:
    """Methods that `collective_rpc` may call on a worker; their names must not clash with the worker's own."""

    policy_broadcast_group: BroadcastGroup | None = None

    def end_with_parent(self) -> None:
        """For the worker's process what it says; an unsplit engine on CPU has its worker in the core."""
        end_with_parent()

    def receive_policy_weights(self, wire_manifest: dict[str, Any], engine_index: int) -> None:
        """Load the weights that `wire_manifest` (asdict of a TransferManifest) describes.

        RuntimeError if the transfer does not cover every parameter of the model, or every one of its language model
        where the transfer is partial.
        """
        manifest = manifest_from_wire(wire_manifest)
        worker: Any = self
        with set_current_vllm_config(worker.vllm_config), torch.no_grad():
            if manifest.backend == "shm":
                self._load(worker, manifest.partial, shared_memory_source(manifest))
            elif manifest.backend == "ipc":
                self._load(worker, manifest.partial, ipc_source(manifest, worker.device))
            else:
                group = self._group(manifest, engine_index)
                self._load(worker, manifest.partial, broadcast_source(manifest, worker.device, group))
        if worker.device.type == "cuda":
            torch.cuda.synchronize(worker.device)

    @staticmethod
    def _load(worker: Any, partial: bool, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        load_policy_weights(worker.model_runner.get_model(), worker.model_config, weights, partial)

    def _group(self, manifest: TransferManifest, engine_index: int) -> BroadcastGroup:
        """Join the broadcast of this transfer, keeping the group as long as the sender keeps its address."""
        worker: Any = self
        rank = 1 + engine_index * worker.parallel_config.world_size + worker.rank
        group = self.policy_broadcast_group
        if group is None or group.address != BroadcastGroup.address_of(manifest):
            group = BroadcastGroup.join(manifest, rank, worker.device)
            self.policy_broadcast_group = group
        return group


def manifest_from_wire(wire: dict[str, Any]) -> TransferManifest:
    """Undo `dataclasses.asdict` and the message encoding, which turns tuples into lists."""
    tensors = tuple(TensorSpec(t["name"], tuple(t["shape"]), t["dtype"], t["offset"]) for t in wire["tensors"])
    return TransferManifest(wire["backend"], wire["version"], tensors, wire["location"], wire["partial"])


def load_policy_weights(
    model: Any, model_config: Any, weights: Iterable[tuple[str, torch.Tensor]], partial: bool = False
) -> None:
    """Replace all weights of a loaded model, or with `partial` all but those of its vision encoder and projector.

    Layerwise reload is what makes this work once kernels have packed the weights: it rebuilds each layer unpacked,
    loads it, packs it again and copies the result into the old storage.
    """
    kept = tuple(f"{name}." for name in model._tower_model_names) if partial else ()  # vLLM's own mark
    expected = {name for name, _ in model.named_parameters() if not name.startswith(kept)}
    initialize_layerwise_reload(model)
    loaded = model.load_weights(weights)
    finalize_layerwise_reload(model, model_config)
    repack_tied_heads(model)
    missing = expected - loaded if loaded is not None and model_config.quantization is None else set()
    if missing:
        raise RuntimeError(f"weight sync left {len(missing)} parameters stale, {min(missing)} among them")


def repack_tied_heads(model: torch.nn.Module) -> None:
    """Refresh the packed copy of every output head that shares its weight with an embedding.

    A tied head has no weight of its own in the transfer, so the layerwise reload never processes it, and on CPU it
    keeps computing with a packed copy of the old weight, without an error. The head may sit in a submodule
    (`language_model.lm_head`).
    """
    owners: dict[int, int] = {}
    for module in model.modules():
        for parameter in module.parameters(recurse=False):
            owners[id(parameter)] = owners.get(id(parameter), 0) + 1
    for module in model.modules():
        if isinstance(module, ParallelLMHead) and owners.get(id(module.weight), 0) > 1:
            head: Any = module
            head.quant_method.process_weights_after_loading(head)

import pytest
import torch

from openrlhf.sync.ipc import CudaIpcSender, merge_manifests
from openrlhf.sync.make import make_sender
from openrlhf.sync.nccl import BroadcastSender
from openrlhf.sync.shm import SharedMemorySender
from openrlhf.types import TensorSpec, TransferManifest

CPU = torch.device("cpu")


def test_each_backend_has_its_sender():
    assert isinstance(make_sender("shm", "fp32"), SharedMemorySender)
    assert isinstance(make_sender("ipc", "bf16", device=CPU), CudaIpcSender)
    nccl = make_sender("nccl", "bf16", device=CPU, host="127.0.0.1", num_receivers=4)
    assert isinstance(nccl, BroadcastSender)
    assert nccl.streaming


@pytest.mark.parametrize("backend", ["shm", "ipc", "nccl"])
def test_each_sends_in_fp32_what_a_16_bit_model_holds_so(backend):
    weights = [("gate.weight", torch.zeros(2, dtype=torch.bfloat16)), ("gate.bias", torch.tensor([8.3]))]
    sender = make_sender(backend, "bf16", model_dtype=torch.bfloat16, device=CPU)
    assert [spec.dtype for spec in sender.describe(weights, 1).tensors] == ["bfloat16", "float32"]
    sender = make_sender(backend, "bf16", model_dtype=torch.float32, device=CPU)
    assert [spec.dtype for spec in sender.describe(weights, 1).tensors] == ["bfloat16", "bfloat16"]


def test_an_unknown_dtype_is_named():
    with pytest.raises(ValueError, match="unknown dtype 'int3'"):
        make_sender("shm", "int3")


def exported(uuid: str, version: int = 1) -> TransferManifest:
    location = {"chunks": [[0, 1, 0, 64]], "handles": {uuid: [uuid.encode()]}}
    return TransferManifest("ipc", version, (TensorSpec("w", (4,), "float32", 0),), location)


def test_ipc_manifests_of_all_ranks_become_one():
    merged = merge_manifests([exported("GPU-a"), exported("GPU-b")])
    assert merged.location["handles"] == {"GPU-a": [b"GPU-a"], "GPU-b": [b"GPU-b"]}
    assert merged.location["chunks"] == [[0, 1, 0, 64]]


def test_ipc_ranks_that_disagree_are_refused():
    with pytest.raises(ValueError, match="different weights"):
        merge_manifests([exported("GPU-a", 1), exported("GPU-b", 2)])

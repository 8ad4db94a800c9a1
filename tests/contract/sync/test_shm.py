import os
import subprocess
import sys

import pytest
import torch

from openrlhf.sync.shm import FIRST_CAPACITY, SharedMemorySender

READ = """
import sys, torch
path, size = sys.argv[1], int(sys.argv[2])
data = torch.from_file(path, shared=True, size=size, dtype=torch.uint8)
print(data[:8].view(torch.float32).tolist(), float(data[-4096:].view(torch.float32).sum()))
"""


@pytest.fixture
def sender():
    sender = SharedMemorySender(torch.float32)
    yield sender
    sender.close()


def read(manifest) -> dict[str, torch.Tensor]:
    location = manifest.location
    path = f"/proc/{location['pid']}/fd/{location['fd']}"
    data = torch.from_file(path, shared=True, size=location["num_bytes"], dtype=torch.uint8).clone()
    tensors = {}
    for spec in manifest.tensors:
        dtype = getattr(torch, spec.dtype)
        count = torch.Size(spec.shape).numel() * dtype.itemsize
        tensors[spec.name] = data[spec.offset : spec.offset + count].view(dtype).view(spec.shape)
    return tensors


def test_another_process_reads_what_was_sent(sender):
    # Larger than the first capacity, so the file grows while it is written and keeps what it held.
    count = FIRST_CAPACITY // 2  # 2 MiB of fp32
    manifest = sender.send([("head", torch.tensor([1.0, 2.0])), ("body", torch.ones(count))], version=1)
    location = manifest.location
    path = f"/proc/{location['pid']}/fd/{location['fd']}"
    answer = subprocess.run(
        [sys.executable, "-c", READ, path, str(location["num_bytes"])], capture_output=True, text=True, timeout=60
    )
    assert answer.stdout.strip() == "[1.0, 2.0] 1024.0", answer.stderr  # the last 4096 bytes are 1024 ones


def test_the_next_transfer_reuses_the_memory_with_new_values(sender):
    first = sender.send([("w", torch.zeros(3, 2))], version=1)
    sender.release()
    second = sender.send([("w", torch.arange(6.0).view(3, 2))], version=2)
    assert second.location == first.location
    assert second.version == 2
    assert read(second)["w"].tolist() == [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]]


def test_weights_are_cast_to_the_engines_dtype():
    sender = SharedMemorySender(torch.bfloat16)
    weights = torch.tensor([1.0, 1.0 + 2**-10])  # the second rounds to 1 in bf16's 8 bits
    manifest = sender.send([("w", weights), ("steps", torch.tensor([3]))], version=1)
    received = read(manifest)
    assert received["w"].dtype == torch.bfloat16
    assert received["w"].tolist() == [1.0, 1.0]
    assert received["steps"].dtype == torch.int64
    sender.close()


def test_what_a_16_bit_model_holds_in_fp32_arrives_in_full():
    sender = SharedMemorySender(torch.bfloat16, model_dtype=torch.bfloat16)
    biases = torch.tensor([8.3, 8.31])  # bf16 makes 8.3125 of both
    received = read(sender.send([("gate.weight", torch.ones(2).bfloat16()), ("gate.bias", biases)], version=1))
    assert received["gate.weight"].dtype == torch.bfloat16
    assert torch.equal(received["gate.bias"], biases)
    sender.close()


def test_memory_in_use_is_not_overwritten(sender):
    sender.send([("w", torch.zeros(2))], version=1)
    with pytest.raises(RuntimeError, match=r"transfer 2: engines may still read transfer 1; release\(\) it first"):
        sender.send([("w", torch.ones(2))], version=2)


def test_non_contiguous_and_trainable_weights_arrive_as_they_are(sender):
    weight = torch.nn.Parameter(torch.arange(6.0).view(2, 3))
    assert read(sender.send([("t", weight.t())], version=1))["t"].tolist() == [[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]


def test_describe_says_what_send_will(sender):
    weights = [("a", torch.zeros(5)), ("b", torch.zeros(2, 2))]
    assert sender.describe(weights, 4).tensors == sender.send(weights, 4).tensors


def test_nothing_to_send_is_an_error(sender):
    with pytest.raises(ValueError, match="no weights"):
        sender.send([], version=1)


def test_close_leaves_nothing_behind():
    sender = SharedMemorySender(torch.float32)
    fd = sender.send([("w", torch.zeros(2))], version=1).location["fd"]
    assert os.readlink(f"/proc/self/fd/{fd}").startswith("/memfd:")  # a file without a name in any folder
    sender.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(fd)

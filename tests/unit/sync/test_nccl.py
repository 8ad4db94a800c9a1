"""The broadcast over gloo, both sides in one process: the receiver's seat is played by a thread."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

from openrlhf.sync.nccl import BroadcastSender


def receive(manifest, rank: int) -> list[torch.Tensor]:
    """Take one seat and return the chunks as they come, written here from the protocol alone."""
    location = manifest.location
    store = dist.TCPStore(
        location["host"], location["port"], is_master=False, timeout=timedelta(seconds=20), wait_for_workers=False
    )
    group = dist.ProcessGroupGloo(
        dist.PrefixStore("policy-weights", store), rank, location["world_size"], timedelta(seconds=20)
    )
    chunks = []
    for _, _, start, stop in location["chunks"]:
        data = torch.empty(stop - start, dtype=torch.uint8)
        options = dist.BroadcastOptions()
        options.rootRank = 0
        group.broadcast([data], options).wait()
        chunks.append(data)
    return chunks


def test_every_seat_receives_every_chunk():
    weights = [("a", torch.arange(16.0)), ("b", torch.tensor([1.5])), ("c", torch.full((8, 8), 2.0))]
    sender = BroadcastSender(torch.float32, torch.device("cpu"), "127.0.0.1", 2, timeout=20, chunk_bytes=128)
    manifest = sender.describe([(name, tensor.to("meta")) for name, tensor in weights], version=5)
    assert manifest.location["world_size"] == 3
    with ThreadPoolExecutor(2) as seats:
        received = [seats.submit(receive, manifest, rank) for rank in (1, 2)]
        assert sender.send(weights, version=5) == manifest
        # a [0, 64) and b [64, 128) share a chunk; c (256 bytes) has its own.
        for chunks in (future.result(timeout=30) for future in received):
            assert chunks[0][:64].view(torch.float32).tolist() == list(range(16))
            assert chunks[0][64:68].view(torch.float32).tolist() == [1.5]
            assert chunks[1].view(torch.float32).tolist() == [2.0] * 64
    sender.close()


def test_a_tensor_in_fp32_arrives_so_beside_those_in_the_engines_dtype():
    weights = [("gate.weight", torch.tensor([1.5], dtype=torch.bfloat16)), ("gate.bias", torch.tensor([8.3]))]
    cpu, bf16 = torch.device("cpu"), torch.bfloat16
    sender = BroadcastSender(bf16, cpu, "127.0.0.1", 1, timeout=20, model_dtype=bf16)
    manifest = sender.describe(weights, version=1)
    with ThreadPoolExecutor(1) as seats:
        received = seats.submit(receive, manifest, 1)
        assert sender.send(weights, version=1) == manifest
        (chunk,) = received.result(timeout=30)
    assert chunk[:2].view(bf16).tolist() == [1.5]
    assert torch.equal(chunk[64:68].view(torch.float32), torch.tensor([8.3]))
    sender.close()


def test_engines_that_do_not_come_are_a_timeout_not_a_hang():
    sender = BroadcastSender(torch.float32, torch.device("cpu"), "127.0.0.1", 1, timeout=1)
    weights = [("a", torch.zeros(2))]
    sender.describe(weights, version=1)
    with pytest.raises((RuntimeError, dist.DistError)):
        sender.send(weights, version=1)
    sender.close()


def test_send_needs_describe_first():
    sender = BroadcastSender(torch.float32, torch.device("cpu"), "127.0.0.1", 1, timeout=1)
    with pytest.raises(RuntimeError, match=r"describe\(\) comes first"):
        sender.send([("a", torch.zeros(2))], version=1)

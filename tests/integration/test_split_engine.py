"""An engine whose model is split over two worker processes on CPU (`tensor_parallel_size` 2).

Both sides run in fp32; tolerances as in test_vllm_sync.py.
"""

import asyncio

import numpy as np
import psutil
import pytest
import pytest_asyncio
import torch

from openrlhf.rollout.errors import EngineDead
from openrlhf.sync.nccl import BroadcastSender
from openrlhf.sync.shm import SharedMemorySender
from openrlhf.types import Completion, SamplingParams
from tests.models import make_tiny_llama

pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.asyncio(loop_scope="session")]

AFTER = 3e-4
BEFORE = 10 * AFTER


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def split_rig(vllm_environment, tmp_path_factory):
    """Used by this module only: its last test kills it. The output head is tied."""
    from tests.integration.vllm_rig import start_rig

    path = make_tiny_llama(tmp_path_factory.mktemp("split") / "model")
    rig = await start_rig(path, SharedMemorySender(torch.float32), tensor_parallel_size=2)
    yield rig
    rig.engine.shutdown()
    rig.sender.close()


def perturb_all(rig, seed: int) -> None:
    from tests.integration.vllm_rig import perturb

    for offset, parameter in enumerate(rig.model.parameters()):
        perturb(parameter, seed + offset)


async def test_both_workers_take_their_part_of_every_weight(split_rig):
    # test_vllm_sync.py shows that any single stale parameter would be seen.
    assert split_rig.difference(await split_rig.samples()) < AFTER
    perturb_all(split_rig, 0)
    assert split_rig.difference(await split_rig.samples()) > BEFORE
    await split_rig.sync()
    assert split_rig.difference(await split_rig.samples()) < AFTER


async def test_both_workers_have_a_seat_in_a_broadcast(split_rig):
    sender = BroadcastSender(torch.float32, torch.device("cpu"), "127.0.0.1", 2, timeout=60, chunk_bytes=2**18)
    perturb_all(split_rig, 100)
    split_rig.version += 1
    manifest = sender.describe(split_rig.weights(), split_rig.version)
    receiving = asyncio.create_task(split_rig.engine.receive_weights(manifest))
    await asyncio.to_thread(sender.send, split_rig.weights(), split_rig.version)
    await receiving
    sender.close()
    assert split_rig.difference(await split_rig.samples()) < AFTER


async def held(engine, seeds: list[int]) -> list[Completion]:
    """One batch of requests, asked for in this order, answered in the order of their seeds."""
    engine.hold()
    asked = {
        seed: asyncio.create_task(engine.generate([10, 20 + seed], SamplingParams(max_tokens=16, seed=seed)))
        for seed in seeds
    }
    await engine.release(expected=len(seeds))
    return [await asked[seed] for seed in sorted(seeds)]


async def test_a_held_batch_repeats_bit_for_bit(split_rig):
    first = await held(split_rig.engine, list(range(8)))
    await split_rig.sync()  # empties the prefix cache
    again = await held(split_rig.engine, [5, 2, 7, 0, 1, 6, 3, 4])
    for a, b in zip(first, again, strict=True):
        assert np.array_equal(a.token_ids, b.token_ids)
        assert np.array_equal(a.logprobs, b.logprobs)


async def test_a_lost_worker_is_a_dead_engine_that_leaves_no_process(split_rig):
    """Last in this module."""
    below = psutil.Process().children(recursive=True)
    workers = [process for process in below if process.cmdline()[0].startswith("VLLM::Worker_TP")]
    assert len(workers) == 2
    cores = {worker.parent() for worker in workers}
    params = SamplingParams(max_tokens=400, min_tokens=400, seed=0)
    request = asyncio.create_task(split_rig.engine.generate([10, 20, 30], params))
    await asyncio.sleep(0.2)
    workers[1].kill()
    with pytest.raises(EngineDead, match="vLLM engine 0 is dead: its process died"):
        await asyncio.wait_for(request, 60)
    split_rig.engine.shutdown()
    _, alive = psutil.wait_procs([*workers, *cores], timeout=30)
    assert alive == []

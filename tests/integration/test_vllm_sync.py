"""After a sync the engine computes with the trainer's weights, all of them, and with nothing it computed before.

Both sides run in fp32. Tolerances are the issue's: after a sync at most 3e-4, before it at least ten times that.
"""

import asyncio
import copy
import dataclasses
import os

import numpy as np
import pytest
import pytest_asyncio
import torch

from openrlhf.rollout.errors import EngineDead
from openrlhf.sync.nccl import BroadcastSender
from openrlhf.sync.shm import SharedMemorySender
from openrlhf.types import SamplingParams
from tests.models import make_tiny_llama

pytestmark = [pytest.mark.engine, pytest.mark.asyncio(loop_scope="session")]

AFTER = 3e-4
BEFORE = 10 * AFTER
LONG = 500  # tokens: with the prompt nearly the model's 512


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def untied_rig(vllm_environment, tmp_path_factory):
    """Used by this module only: its last test kills it."""
    from tests.integration.vllm_rig import start_rig

    path = make_tiny_llama(tmp_path_factory.mktemp("untied") / "model", tied=False)
    rig = await start_rig(path, SharedMemorySender(torch.float32))
    yield rig
    rig.engine.shutdown()
    rig.sender.close()


async def check_every_parameter(rig) -> dict[str, tuple[float, float]]:
    """Perturb one parameter at a time: {name: (difference before the sync, after it)}."""
    from tests.integration.vllm_rig import perturb

    differences = {}
    for seed, (name, parameter) in enumerate(rig.model.named_parameters()):
        perturb(parameter, seed)
        before = rig.difference(await rig.samples())
        await rig.sync()
        differences[name] = before, rig.difference(await rig.samples())
    return differences


def assert_synced(differences: dict[str, tuple[float, float]]) -> None:
    too_small = {name: before for name, (before, _) in differences.items() if before < BEFORE}
    stale = {name: after for name, (_, after) in differences.items() if after > AFTER}
    assert not stale
    assert not too_small


async def test_every_parameter_arrives_with_a_tied_head(tied_rig):
    differences = await check_every_parameter(tied_rig)
    assert "model.embed_tokens.weight" in differences
    assert "lm_head.weight" not in differences
    assert_synced(differences)


async def test_every_parameter_arrives_with_a_separate_head(untied_rig):
    differences = await check_every_parameter(untied_rig)
    assert {"model.embed_tokens.weight", "lm_head.weight"} <= differences.keys()
    assert_synced(differences)


async def test_the_sync_empties_the_prefix_cache(tied_rig):
    from tests.integration.vllm_rig import perturb

    # Two full blocks of 128 tokens can be reused; the second request of the same weights does reuse them.
    prompt = tuple(int(token) for token in np.random.default_rng(9).integers(3, 99, size=300))
    assert tied_rig.difference(await tied_rig.samples([prompt]), [prompt]) < AFTER
    assert tied_rig.difference(await tied_rig.samples([prompt]), [prompt]) < AFTER
    for seed, parameter in enumerate(tied_rig.model.parameters()):
        perturb(parameter, 100 + seed)
    await tied_rig.sync()
    assert tied_rig.difference(await tied_rig.samples([prompt]), [prompt]) < AFTER


async def test_completions_carry_the_version_that_sampled_them(tied_rig):
    # The sync is asked for while requests are in flight: those finish under the old version, the next get the new.
    old = tied_rig.engine.policy_version
    in_flight = [
        asyncio.create_task(tied_rig.engine.generate([5, 6, 7], SamplingParams(max_tokens=40, seed=i, min_tokens=40)))
        for i in range(4)
    ]
    await asyncio.sleep(0.05)
    syncing = asyncio.create_task(tied_rig.sync())
    await asyncio.sleep(0)
    late = asyncio.create_task(tied_rig.engine.generate([5, 6, 7], SamplingParams(max_tokens=4, seed=0)))
    finished = await asyncio.gather(*in_flight)
    await syncing
    assert {int(v) for completion in finished for v in completion.policy_versions} == {old}
    assert [len(completion.token_ids) for completion in finished] == [40] * 4
    assert (
        set((await late).policy_versions.tolist())
        == {tied_rig.version}
        == {tied_rig.engine.policy_version}
        == {old + 1}
    )


async def some_tokens(engine) -> None:
    """Wait until the only request in flight has sampled a few."""
    requests = engine._llm.output_processor.request_states
    while not any(request.detokenizer.num_output_tokens() >= 3 for request in requests.values()):  # noqa: ASYNC110
        await asyncio.sleep(0.002)


async def test_a_kept_request_goes_on_with_the_new_weights_and_says_from_where(tied_rig):
    from tests.integration.vllm_rig import perturb

    old, prompt = tied_rig.version, (5, 6, 7)
    tied_rig.engine.keep_in_flight = True
    try:
        wanted = SamplingParams(max_tokens=LONG, min_tokens=LONG, seed=3)
        running = asyncio.create_task(tied_rig.engine.generate(prompt, wanted))
        await some_tokens(tied_rig.engine)
        before = copy.deepcopy(tied_rig.model)
        for seed, parameter in enumerate(tied_rig.model.parameters()):
            perturb(parameter, 300 + seed)
        await tied_rig.sync()
        completion = await running
    finally:
        tied_rig.engine.keep_in_flight = False
        await tied_rig.sync()  # also empties the prefix cache, which holds keys of both
    versions = completion.policy_versions
    first_new = int(np.argmax(versions == old + 1))
    assert versions.tolist() == [old] * first_new + [old + 1] * (LONG - first_new)
    assert 0 < first_new < LONG
    # Up to the change the logprobs are the old model's to rounding, and from its very first token they are not.
    with torch.no_grad():
        ids = torch.tensor([[*prompt, *completion.token_ids.tolist()]])
        logits = before(ids, use_cache=False).logits[0, len(prompt) - 1 : -1]
    logits[:, before.config.eos_token_id] = -torch.inf  # min_tokens bans the end
    expected = logits.log_softmax(-1).gather(-1, ids[0, len(prompt) :, None]).squeeze(-1).numpy()
    apart = np.abs(expected - completion.logprobs)
    assert apart[:first_new].max() < AFTER
    assert apart[first_new : first_new + 3].max() > BEFORE


async def test_the_transfer_leaves_no_file_and_reuses_its_memory(tied_rig):
    manifest = tied_rig.sender.send(tied_rig.weights(), tied_rig.version + 1)
    first = manifest.location["fd"]
    tied_rig.sender.release()
    await tied_rig.sync()
    manifest = tied_rig.sender.send(tied_rig.weights(), tied_rig.version + 1)
    tied_rig.sender.release()
    assert manifest.location["fd"] == first
    assert os.readlink(f"/proc/self/fd/{first}").startswith("/memfd:")  # a file without a name in any folder


async def test_a_broadcast_carries_the_weights_too(tied_rig):
    # The path that NCCL takes on GPU, over gloo: both sides run at once. Small chunks, so there are several.
    from tests.integration.vllm_rig import perturb

    sender = BroadcastSender(torch.float32, torch.device("cpu"), "127.0.0.1", 1, timeout=60, chunk_bytes=2**18)
    for _ in range(2):  # the second transfer reuses the group
        for seed, parameter in enumerate(tied_rig.model.parameters()):
            perturb(parameter, 200 + seed)
        assert tied_rig.difference(await tied_rig.samples()) > BEFORE
        tied_rig.version += 1
        manifest = sender.describe(tied_rig.weights(), tied_rig.version)
        assert len(manifest.location["chunks"]) > 3
        receiving = asyncio.create_task(tied_rig.engine.receive_weights(manifest))
        sent = await asyncio.to_thread(sender.send, tied_rig.weights(), tied_rig.version)
        await receiving
        assert sent == manifest
        assert tied_rig.difference(await tied_rig.samples()) < AFTER
    sender.close()


async def test_a_failed_sync_marks_the_engine_dead(untied_rig):
    rig = untied_rig  # last in this module: the engine does not survive it
    manifest = rig.sender.send(rig.weights(), rig.version + 1)
    partial = dataclasses.replace(manifest, location={**manifest.location, "chunks": [[0, 5, 0, 10**9]]})
    with pytest.raises(EngineDead, match=r"vLLM engine 0 is dead: weight sync to version \d+ failed"):
        await rig.engine.receive_weights(partial)
    with pytest.raises(EngineDead, match="start a fresh engine"):
        await rig.engine.generate([5, 6, 7], SamplingParams(max_tokens=4))
    with pytest.raises(EngineDead):
        await rig.engine.receive_weights(manifest)

"""Engines that the integration tests share: starting one costs more than most tests."""

import pytest
import pytest_asyncio
import torch

from openrlhf.rollout.vllm.environment import engine_environment
from openrlhf.sync.shm import SharedMemorySender
from tests.models import make_tiny_llama


@pytest.fixture(scope="session")
def vllm_environment():
    """vLLM reads its variables once, so they are set before the first test that imports it.

    One thread: a tiny model gains nothing from a second, and two spin against each other on a busy machine.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name, value in engine_environment("cpu", threads=1).items():
            patch.setenv(name, value)
        yield


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def tied_rig(vllm_environment, tmp_path_factory):
    """A tiny Llama with tied embeddings, fp32, prefix caching on. Tests leave engine and model in sync."""
    from tests.integration.vllm_rig import start_rig

    path = make_tiny_llama(tmp_path_factory.mktemp("tied") / "model", tied=True)
    rig = await start_rig(path, SharedMemorySender(torch.float32))
    yield rig
    rig.engine.shutdown()
    rig.sender.close()

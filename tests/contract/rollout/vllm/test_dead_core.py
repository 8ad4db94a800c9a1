"""A core that dies makes a dead engine, whatever was asked of it: the cluster replaces only those."""

import pytest

from openrlhf.config.rollout import VllmConfig
from openrlhf.rollout.errors import EngineDead
from openrlhf.rollout.vllm.args import VllmEngineArgs
from openrlhf.types import TransferManifest


class DeadCore:
    """In the place of AsyncLLM, after its process has died."""

    errored = True

    async def _refuse(self, *_, **__):
        from vllm.v1.engine.exceptions import EngineDeadError

        raise EngineDeadError

    sleep = wake_up = pause_generation = resume_generation = collective_rpc = _refuse


@pytest.mark.parametrize("call", ["sleep", "wake", "release", "receive_weights"])
async def test_a_dead_core_is_a_dead_engine_in_every_call(call):
    from openrlhf.rollout.vllm.engine import VllmEngine  # vLLM's import reads the environment: not at collection

    engine = VllmEngine(VllmEngineArgs("model", VllmConfig(dtype="fp32"), "cpu", 64))
    engine._llm = DeadCore()
    calls = {
        "sleep": engine.sleep,
        "wake": engine.wake,
        "release": engine.release,
        "receive_weights": lambda: engine.receive_weights(TransferManifest("shm", 1, ())),
    }
    with pytest.raises(EngineDead, match="vLLM engine 0 is dead: its process died"):
        await calls[call]()
    with pytest.raises(EngineDead, match="its process died"):
        engine.hold()

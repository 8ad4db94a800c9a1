"""Calls to an engine's core that dies under them."""

import asyncio

import pytest

from openrlhf.rollout.vllm import calls
from openrlhf.rollout.vllm.calls import while_alive


class FakeCore:
    """As vLLM's AsyncLLM: a core that died is marked, and what was asked of it before is never answered."""

    def __init__(self) -> None:
        self.errored = False
        self.dead_error = RuntimeError("the core died")
        self.cancelled = False

    async def never(self) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise

    async def answer(self) -> int:
        await asyncio.sleep(0)
        return 7

    async def refuse(self) -> None:
        raise ValueError("no such weight")


@pytest.fixture(autouse=True)
def quick_looks(monkeypatch):
    monkeypatch.setattr(calls, "LOOK_S", 0.01)


async def test_a_call_gives_its_answer_or_its_error():
    core = FakeCore()
    assert await while_alive(core, core.answer()) == 7
    with pytest.raises(ValueError, match="no such weight"):
        await while_alive(core, core.refuse())


async def test_a_core_that_dies_under_a_call_ends_it():
    core = FakeCore()
    asyncio.get_running_loop().call_later(0.05, setattr, core, "errored", True)
    with pytest.raises(RuntimeError, match="the core died"):
        await asyncio.wait_for(while_alive(core, core.never()), 5)
    await asyncio.sleep(0)
    assert core.cancelled


async def test_a_caller_that_gives_up_ends_the_call():
    core = FakeCore()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(while_alive(core, core.never()), 0.05)
    await asyncio.sleep(0)
    assert core.cancelled

import asyncio
import contextlib
import threading

import pytest

from openrlhf.rollout.agent_call import call_agent
from openrlhf.rollout.errors import AgentTimeout
from tests.agent_fakes import within


async def test_plain_and_async_functions_are_both_called():
    async def later():
        await asyncio.sleep(0)
        return 2

    assert await call_agent(lambda: 1, 1, "Agent.step") == 1
    assert await call_agent(later, None, "Agent.step") == 2


async def test_a_call_that_refuses_to_be_cancelled_is_left_behind():
    released = asyncio.Event()

    async def stubborn():
        while not released.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await released.wait()

    with pytest.raises(AgentTimeout, match=r"Agent\.step took longer than 0\.01 s"):
        await within(5, call_agent(stubborn, 0.01, "Agent.step"))
    released.set()


async def test_a_timeout_of_the_agents_own_is_its_own():
    async def impatient():
        async with asyncio.timeout(0):
            await asyncio.sleep(5)

    with pytest.raises(TimeoutError):
        await call_agent(impatient, 5, "Agent.step")


async def test_an_agent_cannot_end_the_process():
    async def leaves():
        raise SystemExit(3)

    with pytest.raises(RuntimeError, match=r"Agent\.step called exit\(3\)"):
        await call_agent(leaves, 5, "Agent.step")


def test_an_agent_cannot_end_the_event_loop_of_an_engine():
    """An engine's loop runs beside the main thread, so a KeyboardInterrupt there is no Ctrl-C."""

    async def leaves():
        raise KeyboardInterrupt

    said = []

    async def episode():
        with pytest.raises(RuntimeError, match=r"Agent\.step raised KeyboardInterrupt"):
            await call_agent(leaves, 5, "Agent.step")
        said.append("goes on")

    engine = threading.Thread(target=lambda: asyncio.run(episode()))
    engine.start()
    engine.join(30)
    assert said == ["goes on"]


async def test_an_agent_that_cancels_itself_has_failed():
    async def cancels():
        raise asyncio.CancelledError

    with pytest.raises(RuntimeError, match="was cancelled by its own code"):
        await call_agent(cancels, 5, "Agent.step")


async def test_a_cancelled_caller_cancels_the_call():
    ended = asyncio.Event()

    async def works():
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    caller = asyncio.create_task(call_agent(works, None, "Agent.step"))
    await asyncio.sleep(0.01)
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    await within(5, ended.wait())

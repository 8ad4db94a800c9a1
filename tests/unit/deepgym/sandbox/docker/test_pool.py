"""The pool of waiting containers, over fake ones."""

import asyncio
import concurrent.futures
import itertools
import threading

import pytest

from deepgym.exceptions import SandboxError
from deepgym.sandbox.docker.container import Shape
from deepgym.sandbox.docker.pool import ContainerPool

SMALL, LARGE = Shape(1, 1, 1, 1), Shape(2, 2, 2, 2)


class FakeContainer:
    def __init__(self, number: int, shape: Shape) -> None:
        self.number = number
        self.shape = shape
        self.removed = False

    def remove(self) -> None:
        self.removed = True

    def close(self) -> None:
        assert self.removed


class FakeEngine:
    """Starts containers; remembers them."""

    def __init__(self) -> None:
        self.made: list[FakeContainer] = []
        self.broken = False
        self.may_start = threading.Event()
        self.may_start.set()
        self._numbers = itertools.count()

    def make(self, shape: Shape) -> FakeContainer:
        assert self.may_start.wait(10)
        if self.broken:
            raise SandboxError("no space left")
        container = FakeContainer(next(self._numbers), shape)
        self.made.append(container)
        return container


@pytest.fixture
def engine():
    return FakeEngine()


@pytest.fixture
def pool(engine):
    with concurrent.futures.ThreadPoolExecutor(4) as threads:
        yield ContainerPool(engine.make, 2, threads)


async def test_no_container_is_handed_out_twice_and_the_rest_is_removed(engine, pool):
    taken = [await pool.take(SMALL) for _ in range(5)]
    assert len({container.number for container in taken}) == 5
    await pool.close()
    waiting = [container for container in engine.made if container not in taken]
    assert len(waiting) == 2
    assert all(container.removed for container in waiting)
    assert not any(container.removed for container in taken)


async def test_a_container_has_the_limits_that_were_asked_for(pool):
    assert (await pool.take(SMALL)).shape == SMALL
    assert (await pool.take(LARGE)).shape == LARGE
    await pool.close()


async def test_limits_not_asked_for_lately_keep_no_containers(engine, pool):
    for size in range(1, 6):  # one more than the pool keeps
        await pool.take(Shape(size, 1, 1, 1))
    for _ in range(1000):
        await asyncio.sleep(0.001)
        removed = [container for container in engine.made if container.removed]
        if len(removed) == 2:
            break
    assert [container.shape for container in removed] == [SMALL, SMALL]
    await pool.close()


async def test_an_engine_s_failure_reaches_the_run_and_passes(engine, pool):
    engine.broken = True
    with pytest.raises(SandboxError, match="no space left"):
        await pool.take(SMALL)
    await asyncio.wait(pool._waiting[SMALL])  # those that were started ahead meanwhile have failed too
    with pytest.raises(SandboxError, match="no space left"):
        await pool.take(SMALL)  # tried anew, in vain
    await asyncio.wait(pool._waiting[SMALL])
    engine.broken = False
    assert await pool.take(SMALL) is engine.made[0]  # their failure is of the past
    await pool.close()


async def test_a_cancelled_wait_removes_the_container_that_was_meant_for_it(engine, pool):
    engine.may_start.clear()
    waiter = asyncio.create_task(pool.take(SMALL))
    await asyncio.sleep(0)
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    engine.may_start.set()
    await pool.close()
    assert len(engine.made) == 3  # the one waited for, and two behind it
    assert all(container.removed for container in engine.made)

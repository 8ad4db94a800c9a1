"""An evaluation that no longer gets anywhere ends."""

import asyncio

import pytest

from openrlhf.pipeline.evaluation.progress import run_all
from openrlhf.rollout.errors import GenerationError


async def test_every_item_is_worked_on():
    done = []

    async def work(item: int) -> None:
        await asyncio.sleep(0.001 * (3 - item))
        done.append(item)

    await run_all(work, range(3), 5, "engine")
    assert sorted(done) == [0, 1, 2]
    await run_all(work, [], 0.001, "engine")


async def test_it_may_take_long_as_long_as_something_gets_done():
    # Thirty items, one after the other, 0.1 s each: 3 s in all, and never 2.5 s without one.
    lock = asyncio.Lock()

    async def work(item: int) -> None:
        async with lock:
            await asyncio.sleep(0.1)

    await run_all(work, range(30), 2.5, "engine")


async def test_nothing_done_for_too_long_is_an_error_that_names_what_was_waited_for():
    ended = []

    async def work(item: int) -> None:
        try:
            await asyncio.sleep(0 if item == 0 else 60)
        finally:
            ended.append(item)

    with pytest.raises(GenerationError, match=r"engine 0: no prompt was finished within 0\.05 s \(--eval\.timeout\)"):
        await asyncio.wait_for(run_all(work, range(3), 0.05, "engine 0"), 5)
    assert sorted(ended) == [0, 1, 2]


async def test_the_first_error_is_raised_as_it_is():
    async def work(item: int) -> None:
        if item == 1:
            raise GenerationError("broken")
        await asyncio.sleep(60)

    with pytest.raises(GenerationError, match=r"^broken$"):
        await asyncio.wait_for(run_all(work, range(3), 30, "engine"), 5)

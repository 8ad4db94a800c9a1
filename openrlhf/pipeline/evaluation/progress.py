"""Many prompts at once, and an end to the waiting when none of them gets done."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from openrlhf.rollout.errors import GenerationError

T = TypeVar("T")


async def run_all(work: Callable[[T], Awaitable[None]], items: Iterable[T], timeout_s: float, what: str) -> None:
    """`work` on every item, all at once; the first error ends the others.

    Raises:
        GenerationError: none was finished for `timeout_s` seconds; the line says what was waited for.
    """
    finished: asyncio.Queue[None] = asyncio.Queue()

    async def one(item: T) -> None:
        await work(item)
        finished.put_nowait(None)

    async def progress() -> None:
        try:
            await asyncio.wait_for(finished.get(), timeout_s)
        except TimeoutError as error:
            raise GenerationError(f"{what}: no prompt was finished within {timeout_s:g} s (--eval.timeout)") from error

    try:
        async with asyncio.TaskGroup() as group:
            for _ in [group.create_task(one(item)) for item in items]:
                await progress()
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None

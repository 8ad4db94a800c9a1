"""Checks answers to reasoning-gym's puzzles in worker processes."""

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from openrlhf.env import fork_server
from openrlhf.env.synlogic import judge
from openrlhf.env.verifiers.once import FailureCount
from openrlhf.env.workers import Limits, WorkerGone, WorkerPool

LIMITS = Limits(cpu_s=5, wall_s=30.0, memory_bytes=2 << 30)


class PuzzleVerifier:
    """The workers start with the first answer."""

    def __init__(self, pool: WorkerPool | None = None) -> None:
        self._pool = pool or WorkerPool(Path(judge.__file__), "puzzle grading", limits=LIMITS)
        self._threads = ThreadPoolExecutor(2 * self._pool.size, thread_name_prefix="puzzles")
        self._failures = FailureCount()

    async def verify(self, generator: str, answer: str, entry: Mapping[str, Any]) -> float | None:
        """The score from 0 to 1; None for no verdict. An answer that exhausts its limits or breaks its check has 0."""
        loop = asyncio.get_running_loop()
        try:
            return await loop.run_in_executor(self._threads, self.check, generator, answer, entry)
        except WorkerGone as error:
            self._failures.add("puzzle grading", str(error))
            return None

    def check(self, generator: str, answer: str, entry: Mapping[str, Any]) -> float | None:
        """The same from a thread. Raises WorkerGone where no worker could judge."""
        reply = self._pool.ask({"generator": generator, "answer": answer, "entry": entry})
        if reply == fork_server.LATE:
            return None
        return 0.0 if reply in (fork_server.OVERRUN, fork_server.BROKE) else float(reply)

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
        await asyncio.get_running_loop().run_in_executor(None, self._pool.close)

"""Containers that are started before they are needed."""

import asyncio
import concurrent.futures
from collections import OrderedDict, deque
from collections.abc import Callable

from deepgym.exceptions import SandboxError
from deepgym.sandbox.docker.container import Container, Shape

# Environments differ in limits; beyond this many kinds, the one not asked for the longest is dropped.
_MAX_SHAPES = 4


class ContainerPool:
    """Hands out waiting containers and starts their successors. Every container is handed out once.

    Args:
        make: starts a container; blocks.
        size: containers kept waiting for each shape that was asked for lately.
        threads: where blocking calls run.
    """

    def __init__(self, make: Callable[[Shape], Container], size: int, threads: concurrent.futures.Executor) -> None:
        self._make = make
        self._size = size
        self._threads = threads
        self._waiting: OrderedDict[Shape, deque[asyncio.Future[Container]]] = OrderedDict()
        self._leaving: set[asyncio.Task[None]] = set()
        self._closed = False

    def fill(self, shape: Shape) -> None:
        """Start containers of this shape until enough wait."""
        if self._closed:
            return
        waiting = self._waiting.setdefault(shape, deque())
        self._waiting.move_to_end(shape)
        while len(waiting) < self._size:
            waiting.append(self._begin(shape))
        while len(self._waiting) > _MAX_SHAPES:
            _, unwanted = self._waiting.popitem(last=False)
            for future in unwanted:
                self._dismiss(future)

    async def take(self, shape: Shape) -> Container:
        """A fresh container. Raises SandboxError when the engine cannot start one."""
        future = self._next_waiting(shape) or self._begin(shape)
        self.fill(shape)
        return await self._arrival(future)

    async def start(self, shape: Shape) -> Container:
        """A container that has not waited for anybody."""
        return await self._arrival(self._begin(shape))

    def _next_waiting(self, shape: Shape) -> asyncio.Future[Container] | None:
        """Those that failed to start while nobody needed them are dropped: the engine may be well again by now."""
        waiting = self._waiting.get(shape)
        while waiting:
            future = waiting.popleft()
            if not future.done() or future.exception() is None:
                return future
        return None

    def _begin(self, shape: Shape) -> asyncio.Future[Container]:
        return asyncio.get_running_loop().run_in_executor(self._threads, self._make, shape)

    async def _arrival(self, future: asyncio.Future[Container]) -> Container:
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            self._dismiss(future)
            raise

    async def close(self) -> None:
        """Remove the waiting containers."""
        self._closed = True
        for waiting in self._waiting.values():
            for future in waiting:
                self._dismiss(future)
        self._waiting.clear()
        while self._leaving:
            await asyncio.wait(set(self._leaving))

    def _dismiss(self, future: asyncio.Future[Container]) -> None:
        task = asyncio.ensure_future(self._remove(future))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def _remove(self, future: asyncio.Future[Container]) -> None:
        try:
            container = await future
            try:
                await asyncio.get_running_loop().run_in_executor(self._threads, container.remove)
            finally:
                container.close()
        except SandboxError:
            return  # it never started, or is gone; whoever needs a container hears of the engine's trouble itself

"""The docker backend: one container for each job, used once.

run(job) --> pool.take --> frames into the container's stdin --> frames out of its stdout --> JobResult
                                                             --> the engine removes the container
"""

import asyncio
import concurrent.futures
import contextlib
import functools
import uuid
from collections.abc import Callable
from typing import TypeVar

import docker

from deepgym.exceptions import SandboxError, SandboxTimeoutError
from deepgym.sandbox.base import Job, JobResult, Limits
from deepgym.sandbox.docker.client import connect
from deepgym.sandbox.docker.container import OWNER_LABEL, TMP, WORK, Container, Shape, listed, remove, sweep
from deepgym.sandbox.docker.image import ensure_image
from deepgym.sandbox.docker.pool import ContainerPool
from deepgym.sandbox.protocol import ALL_DEFENCES, ResultReader, encode_job
from deepgym.sandbox.runner.defences import Defences

_T = TypeVar("_T")
# The runner ends a job after at most twice its wall limit; this much later it has failed.
_GRACE_SECONDS = 30.0
# An engine starts and removes few containers a second, so what waits for many cores would keep a closing sandbox busy.
MOST_WARM = 4


class DockerSandbox:
    """Implements `deepgym.sandbox.base.Sandbox` on any engine that speaks the Docker API.

    Args:
        slots: jobs that run at once.
        url: the engine's socket; by default DOCKER_HOST, else the first one found (`client.find_engine`).
        defences: less than all of them in tests only.
        warm: containers kept waiting for each of the (at most four) sets of limits in use; by default one per slot, up
            to MOST_WARM.
    """

    name = "docker"
    isolated = True

    def __init__(
        self, *, slots: int, url: str | None = None, defences: Defences = ALL_DEFENCES, warm: int | None = None
    ) -> None:
        if slots < 1:
            raise ValueError(f"slots is {slots}; at least 1 is needed")
        self._url = url
        self._defences = defences
        self._warm = min(slots, MOST_WARM) if warm is None else warm
        self._slots = asyncio.Semaphore(slots)
        # For each slot a reader, a writer, and one that starts or removes a container.
        self._threads = concurrent.futures.ThreadPoolExecutor(3 * slots + 2, thread_name_prefix="deepgym-docker")
        self._owner = uuid.uuid4().hex
        self._client: docker.DockerClient | None = None
        self._pool: ContainerPool | None = None

    async def start(self) -> None:
        if self._pool is not None:
            return
        client: docker.DockerClient = await self._block(connect, self._url)
        self._client = client
        await self._block(sweep, client.api)
        image = await self._block(ensure_image, client)
        make = functools.partial(self._make, client, image)
        self._pool = ContainerPool(make, self._warm, self._threads)
        self._pool.fill(Shape.of(Limits()))

    async def run(self, job: Job) -> JobResult:
        if self._pool is None:
            raise SandboxError("the docker sandbox is not started")
        shape = Shape.of(job.limits)
        async with self._slots:
            with contextlib.suppress(ContainerLostError):
                reader = await self._run_in(await self._pool.take(shape), job)
                if not reader.cut_off:
                    return reader.result()
            # It died while it waited, or by the engine's hand. An answer that did it does it again.
            reader = await self._run_in(await self._pool.start(shape), job)
            return reader.result()

    async def _run_in(self, container: Container, job: Job) -> ResultReader:
        try:
            reader = await self._converse(container, job)
            if not reader.finished:
                lost = await self._block(container.lost)
                await self._block(container.remove)  # the runner was lost, its processes may not be
                if lost:
                    raise SandboxError(f"the stream to container {container.id[:12]} broke while the answer ran")
            return reader
        except BaseException:
            # Shielded: a second cancellation must not leave the answer running.
            await asyncio.shield(self._block(container.remove))
            raise

    async def close(self) -> None:
        if self._pool is not None:
            await self._pool.close()
            self._pool = None
        if self._client is not None:
            await self._block(self._remove_all, self._client)
            self._client.close()
            self._client = None
        self._threads.shutdown(wait=False)

    async def _converse(self, container: Container, job: Job) -> ResultReader:
        """Feed the runner and listen to it until it has ended or the caller gives up."""
        container.set_timeout(2 * job.limits.wall_seconds + _GRACE_SECONDS)
        frames = encode_job(job, work=WORK, tmp=TMP, nproc=None, defences=self._defences)
        listening = asyncio.ensure_future(self._block(_listen, container, job))
        speaking = asyncio.ensure_future(self._block(_speak, container, b"".join(frames)))
        try:
            return await asyncio.shield(listening)
        finally:
            container.hang_up()  # ends both threads; the engine removes a container whose runner has ended
            await asyncio.shield(asyncio.wait({listening, speaking}))
            container.close()

    def _make(self, client: docker.DockerClient, image: str, shape: Shape) -> Container:
        return Container(client, image, shape, self._defences, self._owner)

    def _remove_all(self, client: docker.DockerClient) -> None:
        """Whatever this sandbox has left in the engine."""
        with contextlib.suppress(SandboxError):  # an engine that is gone has taken its containers along
            for entry in listed(client.api, all=True, filters={"label": f"{OWNER_LABEL}={self._owner}"}):
                remove(client.api, entry["Id"])

    async def _block(self, function: Callable[..., _T], *arguments: object) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)


class ContainerLostError(SandboxError):
    """A container was gone before it had begun an answer, so the answer may run in another."""


def _speak(container: Container, data: bytes) -> None:
    """Send all there is. The runner does not read on after a fatal step; the listener hears why."""
    with contextlib.suppress(OSError):
        container.send(data)


def _listen(container: Container, job: Job) -> ResultReader:
    """Read until the runner has said all.

    Raises:
        SandboxTimeoutError: it said nothing for longer than any job may take.
    """
    reader = ResultReader(job)
    while not reader.finished:
        try:
            data = container.receive()
        except TimeoutError as error:
            raise SandboxTimeoutError(f"the runner in container {container.id[:12]} does not answer") from error
        if not data:
            break
        reader.feed(data)
    if not reader.started and not reader.finished:
        last_words = container.stderr.decode(errors="replace").strip()[-500:]
        raise ContainerLostError(
            f"the runner in container {container.id[:12]} ended before the answer began: {last_words}"
        )
    return reader

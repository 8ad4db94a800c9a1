"""The docker backend on a real engine: what only a container engine can get wrong."""

import asyncio
import gc
import itertools
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import docker
import pytest

from deepgym.exceptions import SandboxUnavailableError
from deepgym.sandbox.base import MIB, Call, Exec, Job, Limits
from deepgym.sandbox.docker.client import connect
from deepgym.sandbox.docker.container import OWNER_LABEL, Container, Shape, remove
from deepgym.sandbox.docker.image import LABEL, ensure_image
from deepgym.sandbox.docker.sandbox import DockerSandbox
from deepgym.sandbox.protocol import ALL_DEFENCES

LIMITS = Limits(cpu_seconds=5.0, wall_seconds=20.0, memory_bytes=128 * MIB)


@asynccontextmanager
async def started(url: str, *, slots: int = 1, warm: int = 1) -> AsyncIterator[DockerSandbox]:
    sandbox = DockerSandbox(slots=slots, url=url, warm=warm)
    await sandbox.start()
    try:
        yield sandbox
    finally:
        await sandbox.close()


@contextmanager
def engine_at(url: str) -> Iterator[docker.APIClient]:
    client = docker.DockerClient(base_url=url)
    try:
        yield client.api
    finally:
        client.close()


def containers(url: str) -> list[str]:
    """Ids of every container of any sandbox in this engine."""
    with engine_at(url) as api:
        return [entry["Id"] for entry in api.containers(all=True, filters={"label": OWNER_LABEL})]


def left_over(url: str, before: set[str]) -> set[str]:
    """The containers beside those of `before`, once there are none, else after a minute: an engine takes its time."""
    deadline = time.monotonic() + 60
    while (left := set(containers(url)) - before) and time.monotonic() < deadline:
        time.sleep(0.2)
    return left


async def waiting_in(sandbox: DockerSandbox) -> list[Container]:
    """The containers that wait in its pool, once all of them are up."""
    assert sandbox._pool is not None
    return await asyncio.gather(*itertools.chain(*sandbox._pool._waiting.values()))


def processes_named(name: str) -> set[int]:
    """The processes of this machine with that name."""
    found = set()
    for folder in Path("/proc").iterdir():
        with suppress(ValueError, OSError):  # no process, or one that ended
            if (folder / "cmdline").read_bytes().startswith(name.encode()):
                found.add(int(folder.name))
    return found


async def process_named(name: str, *, other_than: int = 0) -> int:
    """The process of this machine with that name, once there is one."""
    async with asyncio.timeout(60):
        while not (found := processes_named(name) - {other_than}):  # noqa: ASYNC110  (a process has no event)
            await asyncio.sleep(0.05)
    return found.pop()


def shell(script: str) -> Job:
    return Job({}, (Exec(("sh", "-c", script)),), LIMITS)


async def test_every_job_gets_a_container_of_its_own_and_all_are_gone_in_the_end(engine_url):
    before = set(containers(engine_url))
    async with started(engine_url, slots=2, warm=2) as sandbox:
        results = await asyncio.gather(*(sandbox.run(shell("cat /etc/hostname; echo; id -u")) for _ in range(4)))
        lines = [result.outcomes[0].stdout.split() for result in results]
        assert len({name for name, _ in lines}) == 4  # an engine names a container's host after the container
        assert {user for _, user in lines} == {b"65534"}
    assert left_over(engine_url, before) == set()


async def test_containers_that_died_while_they_waited_are_replaced(engine_url):
    async with started(engine_url, warm=2) as sandbox:
        assert (await sandbox.run(shell("echo one"))).outcomes[0].stdout == b"one\n"
        waiting = await waiting_in(sandbox)
        assert len(waiting) == 4  # two of the usual limits, two of ours
        with engine_at(engine_url) as api:
            for container in waiting:
                remove(api, container.id)
        assert (await sandbox.run(shell("echo two"))).outcomes[0].stdout == b"two\n"


async def test_a_container_that_dies_under_its_answer_is_tried_once_more(engine_url):
    """As one does that the engine, or a cleaning job of the host, removes."""
    before, mark = set(containers(engine_url)), f"answer-{secrets.token_hex(8)}"
    script = f"(exec -a {mark} sleep 100); cat /etc/hostname; echo; echo whole"
    job = Job({}, (Exec(("bash", "-c", script)),), replace(LIMITS, wall_seconds=120.0))
    async with started(engine_url, warm=0) as sandbox:
        task = asyncio.create_task(sandbox.run(job))
        first = await process_named(mark)
        (running,) = set(containers(engine_url)) - before
        with engine_at(engine_url) as api:
            remove(api, running)
        os.kill(await process_named(mark, other_than=first), signal.SIGKILL)  # no need to wait for the second one
        host, said = (await task).outcomes[0].stdout.decode().split()
    assert said == "whole"
    assert not running.startswith(host)  # an engine names a container's host after the container


async def test_calls_and_programs_share_one_jail(engine_url):
    module = b"def double(x):\n    open('left', 'w').write('here')\n    return 2 * x\n"
    steps = (Call("double", (21,)), Exec(("cat", "left")), Exec(("sort",), b"b\na\n"))
    async with started(engine_url) as sandbox:
        result = await sandbox.run(Job({"m.py": module}, steps, LIMITS, module="m.py"))
    assert result.outcomes[0].value == 42
    assert [outcome.stdout for outcome in result.outcomes[1:]] == [b"here", b"a\nb\n"]
    assert result.cpu_ms > 0
    assert result.peak_memory_bytes > MIB


async def test_a_memory_bomb_faster_than_the_runner_s_samples_is_held_by_the_container(engine_url):
    greedy = (
        "import os, fcntl\nkept = []\n"
        "for _ in range(24):\n"
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        "        block = bytearray(60 << 20)\n        block[::4096] = b'x' * len(block[::4096])\n"
        "        os._exit(0)\n"
        "    kept.append(pid)\n"
        "codes = [os.waitpid(pid, 0)[1] for pid in kept]\nraise SystemExit(any(codes))\n"
    )
    async with started(engine_url) as sandbox:
        result = await sandbox.run(Job({"g.py": greedy.encode()}, (Exec(("python3", "g.py")),), LIMITS))
        assert result.outcomes[0].status == "memory"
        assert (await sandbox.run(shell("true"))).outcomes[0].status == "ok"


def test_an_owner_that_is_killed_leaves_no_container(engine_url):
    before = set(containers(engine_url))
    script = (
        "import asyncio, sys\n"
        "from deepgym.sandbox.docker.sandbox import DockerSandbox\n"
        "async def main():\n"
        f"    sandbox = DockerSandbox(slots=1, url={engine_url!r}, warm=2)\n"
        "    await sandbox.start()\n"
        "    (shape,) = sandbox._pool._waiting\n"
        "    await sandbox._pool.take(shape)\n"
        # One that was only made, and never started, stays until the next sandbox sweeps.
        "    await asyncio.wait(sandbox._pool._waiting[shape])\n"
        "    print('up', flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"up\n"
        assert len(set(containers(engine_url)) - before) == 3
        os.kill(owner.pid, signal.SIGKILL)
    assert left_over(engine_url, before) == set()


def test_a_container_s_descriptor_goes_back_when_it_is_closed(engine_url):
    client = connect(engine_url)
    image = ensure_image(client)
    given_back = []
    gc.collect()
    gc.disable()  # the SDK's objects refer to each other: without closing they would go when the collector comes by
    try:
        for _ in range(3):
            container = Container(client, image, Shape.of(LIMITS), ALL_DEFENCES, "descriptors")
            container.remove()
            before = len(os.listdir("/proc/self/fd"))  # with the SDK's own connections, which it keeps for a while
            container.close()
            given_back.append(before - len(os.listdir("/proc/self/fd")))
    finally:
        gc.enable()
        client.close()
    assert given_back == [1, 1, 1]


def test_the_image_is_built_once(engine_url):
    client = connect(engine_url)
    first, started = ensure_image(client), time.monotonic()
    assert ensure_image(client) == first
    assert time.monotonic() - started < 30
    assert len({image.id for image in client.images.list(filters={"label": LABEL})}) == 1
    client.close()


def test_an_engine_that_is_not_there_is_one_clear_line(tmp_path):
    with pytest.raises(SandboxUnavailableError, match=r"engine at unix://.*nobody\.sock does not answer"):
        connect(f"unix://{tmp_path}/nobody.sock")

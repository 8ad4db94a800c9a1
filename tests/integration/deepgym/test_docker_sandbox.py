"""The docker backend on a real engine: what only a container engine can get wrong."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import docker
import pytest

from deepgym.exceptions import SandboxUnavailableError
from deepgym.sandbox.base import MIB, Call, Exec, Job, Limits
from deepgym.sandbox.docker.client import connect
from deepgym.sandbox.docker.container import OWNER_LABEL
from deepgym.sandbox.docker.image import LABEL, ensure_image
from deepgym.sandbox.docker.sandbox import DockerSandbox

LIMITS = Limits(cpu_seconds=5.0, wall_seconds=20.0, memory_bytes=128 * MIB)


@asynccontextmanager
async def started(url: str, *, slots: int = 1, warm: int = 1) -> AsyncIterator[DockerSandbox]:
    sandbox = DockerSandbox(slots=slots, url=url, warm=warm)
    await sandbox.start()
    try:
        yield sandbox
    finally:
        await sandbox.close()


def containers(url: str) -> list[str]:
    """Ids of every container of any sandbox in this engine."""
    client = docker.DockerClient(base_url=url)
    try:
        return [entry["Id"] for entry in client.api.containers(all=True, filters={"label": OWNER_LABEL})]
    finally:
        client.close()


def shell(script: str) -> Job:
    return Job({}, (Exec(("sh", "-c", script)),), LIMITS)


async def test_every_job_gets_a_container_of_its_own_and_all_are_gone_in_the_end(engine_url):
    before = set(containers(engine_url))
    async with started(engine_url, slots=2, warm=2) as sandbox:
        results = await asyncio.gather(*(sandbox.run(shell("cat /etc/hostname; echo; id -u")) for _ in range(4)))
        lines = [result.outcomes[0].stdout.split() for result in results]
        assert len({name for name, _ in lines}) == 4  # an engine names a container's host after the container
        assert {user for _, user in lines} == {b"65534"}
    assert set(containers(engine_url)) <= before


async def test_containers_that_died_while_they_waited_are_replaced(engine_url):
    before = set(containers(engine_url))
    async with started(engine_url, warm=2) as sandbox:
        assert (await sandbox.run(shell("echo one"))).outcomes[0].stdout == b"one\n"
        await asyncio.sleep(1)  # the successors are up
        client = docker.DockerClient(base_url=engine_url)
        for waiting in set(containers(engine_url)) - before:
            client.api.remove_container(waiting, force=True)
        client.close()
        assert (await sandbox.run(shell("echo two"))).outcomes[0].stdout == b"two\n"


async def test_a_container_that_dies_under_its_answer_is_tried_once_more(engine_url):
    """As one does that the engine, or a cleaning job of the host, removes."""
    before = set(containers(engine_url))
    async with started(engine_url, warm=0) as sandbox:
        task = asyncio.create_task(sandbox.run(shell("sleep 3; echo whole")))
        while not (running := set(containers(engine_url)) - before):  # noqa: ASYNC110  (the engine has no event)
            await asyncio.sleep(0.1)
        await asyncio.sleep(1.5)
        client = docker.DockerClient(base_url=engine_url)
        for container in running:
            client.api.remove_container(container, force=True)
        client.close()
        assert (await task).outcomes[0].stdout == b"whole\n"


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
        "    await sandbox._pool.take(next(iter(sandbox._pool._waiting)))\n"
        "    print('up', flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        assert owner.stdout.readline() == b"up\n"
        assert set(containers(engine_url)) > before
        os.kill(owner.pid, signal.SIGKILL)
    deadline = time.monotonic() + 30
    while not set(containers(engine_url)) <= before and time.monotonic() < deadline:
        time.sleep(0.2)
    assert set(containers(engine_url)) <= before


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

"""What a run leaves behind on the host, and what two runs at once see of each other."""

import asyncio
import os
import signal
import subprocess
import sys
import time

import pytest

from deepgym.sandbox.base import Exec, Job
from tests.integration.deepgym.attacks.attack import LIMITS
from tests.integration.deepgym.attacks.host import Host
from tests.integration.deepgym.attacks.outliving import LEFT_BEHIND

on_the_shared_loop = pytest.mark.asyncio(loop_scope="session")
BACKENDS = pytest.mark.parametrize("backend", ["local", "docker"])


def _eventually_without_daemons(host: Host, seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while host.processes_with_mark():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _wait_for_daemons(host: Host, count: int) -> None:
    deadline = time.monotonic() + 60
    while len(host.processes_with_mark()) < count:
        assert time.monotonic() < deadline
        time.sleep(0.05)


@on_the_shared_loop
@BACKENDS
async def test_no_daemon_outlives_its_run(backend, sandboxes, host):
    sandbox = await sandboxes.get(backend, warm=2)
    for job in LEFT_BEHIND.jobs(host.facts):
        assert (await sandbox.run(job)).outcomes[0].status == "ok"
    assert _eventually_without_daemons(host, 0.0)


def test_the_daemon_outlives_a_plain_process(host, tmp_path):
    for name, data in LEFT_BEHIND.jobs(host.facts)[0].files.items():
        (tmp_path / name).write_bytes(data)
    subprocess.run([sys.executable, f"{LEFT_BEHIND.name}.py"], cwd=tmp_path, check=True, timeout=60)
    left = host.processes_with_mark()
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert left


@on_the_shared_loop
@BACKENDS
async def test_a_cancelled_run_is_killed_and_its_slot_is_free(backend, sandboxes, host):
    sandbox = await sandboxes.get(backend, warm=2)
    mark = host.daemon_mark
    sleeper = Job({}, (Exec(("bash", "-c", f"exec -a {mark} sleep 60")),), LIMITS)
    runs = [asyncio.create_task(sandbox.run(sleeper)) for _ in range(2)]  # both slots
    await asyncio.to_thread(_wait_for_daemons, host, 2)
    for run in runs:
        run.cancel()
    assert all(isinstance(end, asyncio.CancelledError) for end in await asyncio.gather(*runs, return_exceptions=True))
    assert _eventually_without_daemons(host, 0.0)
    after = await sandbox.run(Job({}, (Exec(("true",)),), LIMITS))
    assert after.outcomes[0].status == "ok"


@on_the_shared_loop
@BACKENDS
async def test_two_answers_at_once_see_nothing_of_each_other(backend, sandboxes):
    """Each looks for the other's file in every place it can name, while both are there."""
    search = """
import glob, os, time
open("answer-in-progress", "w").write("secret")
end = time.monotonic() + 1.0
seen = set()
while time.monotonic() < end:
    for place in ("/tmp", "/work", "/var/tmp", "/dev/shm", "/run", *glob.glob("/proc/[0-9]*/cwd")):
        try:
            names = os.listdir(place)
        except OSError:
            continue
        if "answer-in-progress" in names:
            seen.add(os.stat(os.path.join(place, "answer-in-progress")).st_ino)
    time.sleep(0.05)
seen.discard(os.stat("answer-in-progress").st_ino)
print(len(seen))
"""
    sandbox = await sandboxes.get(backend, warm=2)
    job = Job({"search.py": search.encode()}, (Exec(("python3", "search.py")),), LIMITS)
    results = await asyncio.gather(sandbox.run(job), sandbox.run(job))
    assert [result.outcomes[0].stdout for result in results] == [b"0\n", b"0\n"]

"""Verifiers that are slow, hang, or raise what nobody foresaw."""

import asyncio
import subprocess
import sys
import threading
import time

import pytest

from deepgym import verifier_threads
from deepgym.exceptions import SandboxError, VerifierError
from deepgym.verifier_threads import VerifierThreads


@pytest.fixture
def hang():
    """Work that does not come back before the test's end."""
    leave = threading.Event()
    yield lambda: leave.wait(60)
    leave.set()


async def test_a_piece_that_hangs_is_no_verdict_after_its_time(monkeypatch, hang):
    monkeypatch.setattr(verifier_threads, "JUDGE_SECONDS", 0.2)
    started = time.monotonic()
    with pytest.raises(VerifierError, match=r"^add: verifier\.judge took more than 0\.2 s$"):
        await VerifierThreads(1).run("add: verifier.judge", hang)
    assert 0.2 <= time.monotonic() - started < 5.0


async def test_pieces_that_hang_take_nobodys_place(monkeypatch, hang):
    """Two places, four that hang: each pair holds the places for 0.1 s, so the fifth piece starts after 0.2 s."""
    monkeypatch.setattr(verifier_threads, "PLACE_SECONDS", 0.1)
    threads = VerifierThreads(2)
    hanging = [asyncio.create_task(threads.run("add", hang)) for _ in range(4)]
    await asyncio.sleep(0)
    started = time.monotonic()
    assert await threads.run("add", lambda: 7) == 7
    assert 0.15 <= time.monotonic() - started < 5.0
    assert not any(task.done() for task in hanging)
    for task in hanging:
        task.cancel()


async def test_a_place_is_given_back_once(monkeypatch):
    """After PLACE_SECONDS and at the end of the work, but never twice: one place stays one."""
    monkeypatch.setattr(verifier_threads, "PLACE_SECONDS", 0.02)
    threads = VerifierThreads(1)
    await threads.run("add", lambda: time.sleep(0.1))
    await asyncio.gather(*(threads.run("add", lambda: None) for _ in range(10)))
    await asyncio.sleep(0.05)
    assert threads._places._value == 1


async def test_never_more_at_once_than_places():
    """Six pieces of 0.05 s on two places take 0.15 s."""
    threads, inside, most = VerifierThreads(2), [], []

    def work():
        inside.append(1)
        most.append(len(inside))
        time.sleep(0.05)
        inside.pop()

    started = time.monotonic()
    await asyncio.gather(*(threads.run("add", work) for _ in range(6)))
    assert time.monotonic() - started >= 0.15
    assert max(most) == 2


async def test_whoever_is_cancelled_waits_no_longer(hang):
    waiting = asyncio.create_task(VerifierThreads(1).run("add", hang))
    await asyncio.sleep(0.05)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(waiting, 5)


@pytest.mark.parametrize(
    ("raised", "kind", "message"),
    [
        (SandboxError("too few"), SandboxError, "^too few$"),
        (ConnectionError("gone"), VerifierError, "^add failed: ConnectionError: gone$"),
        (KeyboardInterrupt(), VerifierError, "^add failed: KeyboardInterrupt: $"),
        (StopIteration(), VerifierError, "^add failed: StopIteration: $"),
    ],
)
async def test_what_a_piece_raises_is_the_verifiers_unless_deepgym_raised_it(raised, kind, message):
    def work():
        raise raised

    with pytest.raises(kind, match=message):
        await VerifierThreads(1).run("add", work)


SCRIPT = """
import threading
from dataclasses import replace
from deepgym.core import DeepGym
from tests.deepgym_fakes import FakeSandbox, StepOutcome, environment

inside = threading.Event()
def judge(case, outcome):
    inside.set()
    threading.Event().wait()

env = environment()
env = replace(env, verifier=replace(env.verifier, judge=judge))
dg = DeepGym(sandbox=FakeSandbox(lambda step: StepOutcome("ok", 3)))
threading.Thread(target=lambda: dg.run(env, "x"), daemon=True).start()
inside.wait()
dg.close()
print("closed", flush=True)
"""


def test_a_script_ends_though_a_judge_hangs():
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "closed\n"), done.stderr

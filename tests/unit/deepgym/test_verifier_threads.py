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


@pytest.fixture
def busy():
    """The same, using CPU time all along."""
    leave = threading.Event()

    def work():
        while not leave.is_set():
            pass

    yield work
    leave.set()


@pytest.fixture
def short(monkeypatch):
    """A place is given back after 0.05 s, 0.2 s of CPU time are the limit, 1 s without any is hanging."""
    monkeypatch.setattr(verifier_threads, "PLACE_SECONDS", 0.05)
    monkeypatch.setattr(verifier_threads, "JUDGE_SECONDS", 0.2)
    monkeypatch.setattr(verifier_threads, "HANG_SECONDS", 1.0)


def work_for(seconds: float) -> float:
    """Use so much CPU time; the most that was."""
    started = time.thread_time()
    while time.thread_time() - started < seconds:
        pass
    return time.thread_time() - started


async def test_a_piece_that_hangs_is_no_verdict_after_its_time(short, hang):
    started = time.monotonic()
    message = r"^add: verifier\.judge hangs: it used hardly any CPU time in 1 s$"
    with pytest.raises(VerifierError, match=message):
        await VerifierThreads(1).run("add: verifier.judge", hang)
    assert 1.0 <= time.monotonic() - started < 5.0


async def test_a_piece_that_works_too_long_is_no_verdict(short, busy):
    with pytest.raises(VerifierError, match=r"^add: verifier\.judge took more than 0\.2 s of CPU time$"):
        await VerifierThreads(1).run("add: verifier.judge", busy)


async def test_the_others_of_a_pile_cost_no_piece_its_verdict(short, monkeypatch):
    """Twelve pieces of 0.1 s of CPU time each share one interpreter, so the last end after 1.2 s; none used 0.2 s."""
    monkeypatch.setattr(verifier_threads, "HANG_SECONDS", 30.0)  # shares are even over seconds, not over tenths
    threads, started = VerifierThreads(6), time.monotonic()
    used = await asyncio.gather(*(threads.run("add", lambda: work_for(0.1)) for _ in range(12)))
    assert time.monotonic() - started >= 1.2
    assert max(used) < 0.2


async def test_pieces_that_hang_take_nobodys_place(short, hang):
    """Two places and two that hang: these are beside after 0.05 s, long before they are given up after 1 s."""
    threads = VerifierThreads(2)
    hanging = [asyncio.create_task(threads.run("add", hang)) for _ in range(2)]
    await asyncio.sleep(0)
    assert await threads.run("add", lambda: 7) == 7
    assert not any(task.done() for task in hanging)
    await asyncio.gather(*hanging, return_exceptions=True)


async def test_as_many_as_places_go_on_beside_them_until_they_are_given_up(short, hang):
    """Of four that hang, two are beside and two in the places: the fifth waits until the first is given up."""
    threads = VerifierThreads(2)
    hanging = [asyncio.create_task(threads.run("add", hang)) for _ in range(4)]
    await asyncio.sleep(0.3)
    assert (threads.overdue, threads.places.locked()) == (2, True)
    assert await threads.run("add", lambda: 7) == 7
    assert hanging[0].done()
    await asyncio.gather(*hanging, return_exceptions=True)
    assert (threads.overdue, threads.places._value) == (0, 2)


async def test_what_nobody_waits_for_counts_until_it_ends_or_is_given_up(short, hang):
    threads = VerifierThreads(1)
    hanging = [asyncio.create_task(threads.run("add", hang)) for _ in range(2)]
    await asyncio.sleep(0.3)
    for task in hanging:
        task.cancel()
    await asyncio.gather(*hanging, return_exceptions=True)
    assert (threads.overdue, threads.places.locked()) == (1, True)
    assert await asyncio.wait_for(threads.run("add", lambda: 7), 5) == 7


async def test_a_place_is_given_back_once(monkeypatch):
    """After PLACE_SECONDS and at the end of the work, but never twice: one place stays one."""
    monkeypatch.setattr(verifier_threads, "PLACE_SECONDS", 0.02)
    threads = VerifierThreads(1)
    await threads.run("add", lambda: time.sleep(0.1))
    await asyncio.gather(*(threads.run("add", lambda: None) for _ in range(10)))
    await asyncio.sleep(0.05)
    assert (threads.places._value, threads.overdue) == (1, 0)


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

"""DeepGym from threads and loops, with a sandbox that obeys the test."""

import asyncio
import math
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

from deepgym import verifier_threads
from deepgym.core import DeepGym
from deepgym.exceptions import SandboxError, SandboxUnavailableError, VerifierError
from deepgym.models import Case, Environment, Verifier
from deepgym.sandbox.base import Call, Job, JobResult, StepOutcome


class Panic(BaseException):
    """No Exception, as extension modules raise it."""


RAISED = {
    "leak": asyncio.CancelledError(),
    "exit": SystemExit(3),
    "interrupt": KeyboardInterrupt(),
    "panic": Panic("p"),
}


class ScriptedSandbox:
    """Each call returns its argument plus one; some answers are orders to the sandbox."""

    name, isolated = "scripted", True

    def __init__(self) -> None:
        self.starts = self.inside = self.most_inside = self.killed = self.closed = 0
        self.entered = threading.Event()
        self.fail_start = False

    async def start(self) -> None:
        self.starts += 1
        await asyncio.sleep(0)
        if self.fail_start:
            self.fail_start = False
            raise SandboxUnavailableError("no tool")

    async def run(self, job: Job) -> JobResult:
        answer = job.files["solution.py"].decode()
        self.inside += 1
        self.most_inside = max(self.most_inside, self.inside)
        self.entered.set()
        try:
            if answer == "hang":
                await asyncio.sleep(3600)
            if answer == "break":
                raise SandboxError("provider gone")
            if answer in RAISED:
                raise RAISED[answer]
            await asyncio.sleep(0)
            values = [step.args[0] + 1 for step in job.steps if isinstance(step, Call)]
            return JobResult(tuple(StepOutcome("ok", value) for value in values))
        except asyncio.CancelledError:
            await asyncio.sleep(0.02)  # killing takes its time
            self.killed += 1
            raise
        finally:
            self.inside -= 1

    async def close(self) -> None:
        self.closed += 1


@pytest.fixture
def made() -> list[int]:
    """How often the hidden cases were made."""
    return []


@pytest.fixture
def env(made) -> Environment:
    def cases(rng):
        made.append(1)
        return [Case("a", 2, args=(1,)), Case("b", 6, args=(5,))]

    def examples():
        return [Case("shown", 1, args=(0,), hidden=False)]

    verifier = Verifier(cases, lambda case, outcome: outcome.value == case.expected, examples)
    return Environment("plus", "Plus", "", "function", "python", "f", verifier, "easy", "test")


@pytest.fixture
def sandbox() -> ScriptedSandbox:
    return ScriptedSandbox()


@pytest.fixture
def dg(sandbox):
    with DeepGym(sandbox=sandbox, max_parallel=2) as gym:
        yield gym


def test_run_gives_a_verdict(dg, env):
    result = dg.run(env, "x")
    assert (result.score, result.passed, [case.name for case in result.cases]) == (1.0, True, ["a", "b"])
    assert [case.name for case in dg.run(env, "x", cases="shown").cases] == ["shown"]
    assert dg.run(env, "  ").score == 0.0  # no code, no run


def test_it_serves_threads_and_loops_at_once(dg, env, sandbox, made):
    scores: list[float] = []

    def from_a_loop():
        async def many():
            return await asyncio.gather(*(dg.arun(env, "x") for _ in range(20)))

        scores.extend(result.score for result in asyncio.run(many()))

    threads = [threading.Thread(target=from_a_loop) for _ in range(3)]
    threads += [threading.Thread(target=lambda: scores.append(dg.run(env, "x").score)) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert scores == [1.0] * 65
    assert sandbox.starts == 1
    assert len(made) == 1  # cases of one environment are made once


async def test_cancelling_returns_when_the_run_is_dead(dg, env, sandbox):
    task = asyncio.ensure_future(dg.arun(env, "hang"))
    await asyncio.to_thread(sandbox.entered.wait)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (sandbox.killed, sandbox.inside) == (1, 0)
    sandbox.entered.clear()

    async def out_of_time() -> None:
        async with asyncio.timeout(None) as limit:
            task = asyncio.ensure_future(dg.arun(env, "hang"))
            await asyncio.to_thread(sandbox.entered.wait)
            limit.reschedule(asyncio.get_running_loop().time())
            await task

    with pytest.raises(TimeoutError):
        await out_of_time()
    assert (sandbox.killed, sandbox.inside) == (2, 0)
    assert (await dg.arun(env, "x")).score == 1.0


def test_failures_without_a_verdict_raise_from_run_and_are_counted_in_a_batch(dg, env):
    with pytest.raises(SandboxError, match="provider gone"):
        dg.run(env, "break")
    with pytest.raises(SandboxError, match="cancelled"):  # what an SDK leaks is not our caller's cancellation
        dg.run(env, "leak")
    batch = dg.run_batch(env, ["x", "break", "", "x"])
    assert [result.has_verdict for result in batch] == [True, False, True, True]
    assert math.isnan(batch[1].score)
    assert (batch[1].error_type, batch.no_verdict_count) == ("sandbox_error", 1)
    assert batch.mean_score == pytest.approx(2 / 3)


def test_a_verifier_that_cannot_make_cases_raises_every_time(dg, env):
    broken = Environment("no", "", "", "function", "python", "f", Verifier(len, len), "easy", "test")
    for _ in range(2):
        with pytest.raises(VerifierError, match=r"no: verifier\.cases failed with seed 0: TypeError"):
            dg.run(broken, "x")


@pytest.mark.parametrize("end", RAISED)
def test_whatever_a_sandbox_raises_costs_one_answer(dg, env, end):
    batch = dg.run_batch(env, ["x", end, "x"])
    assert [result.has_verdict for result in batch] == [True, False, True]


@pytest.mark.parametrize("end", ["exit", "interrupt", "panic"])
def test_what_is_no_exception_ends_neither_the_caller_nor_the_loop(dg, env, end):
    with pytest.raises(SandboxError, match=f"the run ended with {type(RAISED[end]).__name__}"):
        dg.run(env, end)
    assert dg.run(env, "x").score == 1.0


@pytest.mark.parametrize("raised", [Panic("p"), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError()])
def test_a_judge_that_raises_anything_costs_its_own_answer(dg, env, raised):
    """Of three answers to one case, the second makes the judge raise."""

    def judge(case, outcome):
        if outcome.value == -1:
            raise raised
        return True

    class Answering(ScriptedSandbox):
        async def run(self, job):
            return JobResult((StepOutcome("ok", int(job.files["solution.py"])),) * 2)

    strict = replace(env, verifier=replace(env.verifier, judge=judge))
    with DeepGym(sandbox=Answering()) as gym:
        batch = gym.run_batch(strict, ["1", "-1", "1"])
        assert [result.error_type for result in batch] == [None, "verifier_error", None]
        with pytest.raises(VerifierError, match=type(raised).__name__):
            gym.run(strict, "-1")
        assert gym.run(strict, "1").score == 1.0


def test_a_judge_that_hangs_costs_its_own_answer(env, monkeypatch):
    """One place, and judges that hang for good: the answer after them is judged all the same."""
    monkeypatch.setattr(verifier_threads, "HANG_SECONDS", 0.3)
    monkeypatch.setattr(verifier_threads, "PLACE_SECONDS", 0.1)
    leave = threading.Event()
    hanging = replace(env, verifier=replace(env.verifier, judge=lambda case, outcome: leave.wait(60)))
    with DeepGym(sandbox=ScriptedSandbox(), max_parallel=1) as gym:
        batch = gym.run_batch(hanging, ["x"] * 3)
        assert [result.error_type for result in batch] == ["verifier_error"] * 3
        assert batch[0].error_message == (
            "VerifierError: plus: verifier.judge hangs: it used hardly any CPU time in 0.3 s"
        )
        assert gym.run(env, "x").score == 1.0
    leave.set()


def test_cases_that_could_not_be_made_once_are_made_by_the_next_run(dg, env):
    calls = []

    def cases(rng):
        calls.append(1)
        if len(calls) == 1:
            raise OSError("stale file handle")
        return env.verifier.cases(rng)

    flaky = replace(env, verifier=replace(env.verifier, cases=cases))
    with pytest.raises(VerifierError, match="stale file handle"):
        dg.run(flaky, "x")
    assert [dg.run(flaky, "x").score for _ in range(2)] == [1.0, 1.0]
    assert len(calls) == 2


FORKED = """
import atexit, os, time
from deepgym.core import DeepGym
from tests.deepgym_fakes import FakeSandbox, StepOutcome, environment

def in_a_child(do):
    child = os.fork()
    if child:
        assert os.waitpid(child, 0)[1] == 0
        return
    do()
    os._exit(0)

def refused():
    try:
        dg.run(environment(), "x")
    except RuntimeError as error:
        print(error, flush=True)

def exits():
    started = time.monotonic()
    atexit._run_exitfuncs()
    assert time.monotonic() - started < 5

dg = DeepGym(sandbox=FakeSandbox(lambda step: StepOutcome("ok", 3)))
in_a_child(lambda: print("unused", dg.run(environment(), "x").score, flush=True))
print("parent", dg.run(environment(), "x").score, flush=True)
in_a_child(refused)
in_a_child(exits)
in_a_child(dg.close)
print("parent", dg.run(environment(), "x").score, flush=True)
"""


def test_a_fork_of_a_process_that_used_it():
    """A child hears at once that it cannot use it, ends like any other, and takes nothing from its parent."""
    done = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "unused 1.0",
        "parent 1.0",
        "this DeepGym was used before a fork; make one in each process",
        "parent 1.0",
    ]


def test_a_start_that_failed_is_tried_again(env, sandbox):
    sandbox.fail_start = True
    with DeepGym(sandbox=sandbox) as gym:
        with pytest.raises(SandboxUnavailableError):
            gym.start()
        assert gym.run(env, "x").score == 1.0
    assert sandbox.starts == 2


def test_closing_kills_what_runs_and_ends_its_waiters(env, sandbox):
    gym = DeepGym(sandbox=sandbox)
    failures: list[BaseException] = []

    def wait():
        try:
            gym.run(env, "hang")
        except SandboxError as exc:
            failures.append(exc)

    waiter = threading.Thread(target=wait)
    waiter.start()
    sandbox.entered.wait()
    gym.close()
    waiter.join(10)
    assert len(failures) == 1
    assert (sandbox.closed, sandbox.inside) == (1, 0)
    gym.close()
    assert sandbox.closed == 1
    with pytest.raises(RuntimeError, match="closed"):
        gym.run(env, "x")


def test_a_blocking_call_from_its_own_loop_is_refused(dg, env):
    class Blocking(ScriptedSandbox):
        async def run(self, job):
            return gym.run_job(job)

    with DeepGym(sandbox=Blocking()) as gym, pytest.raises(RuntimeError, match="async twin"):
        gym.run(env, "x")


def test_bad_arguments(sandbox):
    for wrong in (0, 1.5, True, "2"):
        with pytest.raises(ValueError, match=f"{wrong!r}; it must be a whole number of at least 1"):
            DeepGym(sandbox=sandbox, max_parallel=wrong)
    with pytest.raises(ValueError, match="nonsense"):
        DeepGym(mode="nonsense")


def test_cases_of_few_environments_are_kept(dg, env, made):
    for seed in range(300):
        assert dg.run(env.with_seed(seed), "x").score == 1.0
    assert len(dg._cases) <= 256

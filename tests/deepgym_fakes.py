"""Stand-ins for deepgym's sandbox, and a clock that nobody waits for."""

import asyncio
import random
import selectors
import socket
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from deepgym.models import Case, CaseOutcome, Environment, ErrorType, RunResult, Verifier
from deepgym.sandbox.base import Job, JobResult, StepOutcome

T = TypeVar("T")


class _JumpingSelector(selectors.DefaultSelector):
    """Where a loop would sleep, its clock jumps instead."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if timeout is None:
            return super().select(10.0)  # another thread's turn; a test that hangs here ends with the test's time-out
        self.now += timeout
        return []


class VirtualClockLoop(asyncio.SelectorEventLoop):
    """An event loop on which 150 seconds pass at once."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Run to the end on a virtual clock that starts at 0."""
    with asyncio.Runner(loop_factory=VirtualClockLoop) as runner:
        return runner.run(main)


def environment(name: str = "add", **changes: Any) -> Environment:
    """A function task with one case."""
    verifier = Verifier(cases=_one_case, judge=_equal)
    fields: dict[str, Any] = {
        "name": name,
        "title": "Add",
        "task": "Add two numbers.",
        "kind": "function",
        "language": "python",
        "entry": "add",
        "verifier": verifier,
        "difficulty": "easy",
        "domain": "arithmetic",
    }
    return Environment(**fields | changes)


def _one_case(rng: random.Random) -> Sequence[Case]:
    return [Case("one", expected=3, args=(1, 2))]


def _equal(case: Case, outcome: StepOutcome) -> bool:
    return bool(outcome.value == case.expected)


def verdict(score: float, **changes: Any) -> RunResult:
    """A run with a verdict: two cases, both passed iff the score is 1."""
    cases = (CaseOutcome("first", True, 1.0), CaseOutcome("second", score == 1.0, float(score == 1.0)))
    return RunResult(score, score == 1.0, True, **{"cases": cases} | changes)


def no_verdict(error_type: ErrorType) -> RunResult:
    return RunResult(float("nan"), False, False, error_type=error_type)


@dataclass(frozen=True, slots=True)
class Run:
    """What a FakeGym's run does: wait in the gym's own queue, then work, then end."""

    end: RunResult | BaseException
    seconds: float = 0.0
    queued: float = 0.0
    dying: float = 0.0  # seconds from its kill to its end


@asynccontextmanager
async def served(app: Any) -> AsyncIterator[str]:
    """The address of the application behind uvicorn on a free port of this machine."""
    import uvicorn

    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:  # bound at once: clients may connect
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
        serving = asyncio.create_task(server.serve(sockets=[listener]))
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            await serving


@contextmanager
def served_in_thread(app: Any) -> Iterator[str]:
    """The same for tests that block."""
    import uvicorn

    with socket.create_server(("127.0.0.1", 0), backlog=1024) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(60.0)


@dataclass
class FakeGym:
    """Implements ServedGym from a table: the answer names its runs, one after the other; the last one repeats."""

    runs: Mapping[str, Sequence[Run]] = field(default_factory=dict)
    default: Callable[[str], Run] = lambda answer: Run(verdict(1.0))
    calls: list[tuple[str, float]] = field(default_factory=list)  # answer and loop time
    killed: list[str] = field(default_factory=list)
    running: int = 0
    most_at_once: int = 0
    job: Callable[[Job], JobResult] = lambda job: JobResult((StepOutcome("ok"),))
    sandbox_name: str = "fake"
    isolated: bool = True

    async def arun(self, env: Environment, answer: str, *, on_start: Callable[[], None] = lambda: None) -> RunResult:
        before = sum(called == answer for called, _ in self.calls)
        self.calls.append((answer, asyncio.get_running_loop().time()))
        table = self.runs.get(answer)
        run = table[min(before, len(table) - 1)] if table else self.default(answer)
        self.running += 1
        self.most_at_once = max(self.most_at_once, self.running)
        try:
            await asyncio.sleep(run.queued)
            on_start()
            await asyncio.sleep(run.seconds)
        except asyncio.CancelledError:
            await asyncio.sleep(run.dying)
            self.killed.append(answer)
            raise
        finally:
            self.running -= 1
        if isinstance(run.end, BaseException):
            raise run.end
        return run.end

    async def arun_job(self, job: Job) -> JobResult:
        return self.job(job)


class FakeSandbox:
    """Implements Sandbox: `behave(step)` is what a step does; nothing runs."""

    name = "fake"
    isolated = True

    def __init__(self, behave: Callable[[Any], StepOutcome | Exception]) -> None:
        self.behave = behave
        self.jobs: list[Job] = []

    async def start(self) -> None:
        """Nothing to start."""

    async def run(self, job: Job) -> JobResult:
        self.jobs.append(job)
        outcomes = []
        for step in job.steps:
            outcome = self.behave(step)
            if isinstance(outcome, Exception):
                raise outcome
            outcomes.append(outcome)
        return JobResult(tuple(outcomes), cpu_ms=2.0, wall_ms=4.0, peak_memory_bytes=1 << 20, notes=("a note",))

    async def close(self) -> None:
        """Nothing to close."""

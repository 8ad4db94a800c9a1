"""DeepGym: runs answers through environments, from any thread or event loop.

    dg = DeepGym(mode="auto")
    result = dg.run(load_environment("coin_change"), code)      # or: await dg.arun(env, code)

All work happens on one background event loop that the sandbox lives on; `run` and `arun` only hand it over, so
threads, several event loops and plain scripts may share one DeepGym.
"""

import asyncio
import os
import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from deepgym import grading
from deepgym.background import BackgroundLoop
from deepgym.exceptions import error_type_of, named
from deepgym.models import BatchResult, Case, Environment, RunResult
from deepgym.sandbox.base import Job, JobResult, Sandbox
from deepgym.verifier_threads import VerifierThreads

Mode = Literal["auto", "local", "docker"]
CaseSet = Literal["hidden", "shown"]
CASE_CACHE = 256  # environments x seeds whose cases are kept
BATCH_WIDTH_PER_SLOT = 4  # answers of one batch in preparation or judgement beside those that run
STOP_SECONDS = 30.0  # to kill a cancelled run, or to close the sandbox


class DeepGym:
    """A sandbox with its event loop.

    mode: "local" (bubblewrap), "docker" (any Docker-compatible engine), or "auto", which takes what is there.
    max_parallel: answers that run at once; default one per core, as answers are CPU-bound.
    allow_unisolated: the sentence that lets "local" run without a jail; see `deepgym.sandbox.auto`.
    sandbox: one of your own, instead of `mode`.
    hidden: folders of your own environments; where a jail shows them at all, answers find them empty.

    Raises SandboxUnavailableError at once when the mode's tool is missing. Workers start with the first run.
    """

    def __init__(
        self,
        mode: Mode = "auto",
        *,
        max_parallel: int | None = None,
        allow_unisolated: str = "",
        sandbox: Sandbox | None = None,
        hidden: Sequence[Path] = (),
    ) -> None:
        slots = max_parallel if max_parallel is not None else len(os.sched_getaffinity(0))
        if isinstance(slots, bool) or not isinstance(slots, int) or slots < 1:
            raise ValueError(f"max_parallel is {max_parallel!r}; it must be a whole number of at least 1")
        self.max_parallel = slots
        if sandbox is None:
            from deepgym.sandbox.auto import make_sandbox  # brings the backends, which `import deepgym` does without

            sandbox = make_sandbox(mode, slots=slots, allow_unisolated=allow_unisolated, hidden=hidden)
        self._sandbox = sandbox
        self._cases: OrderedDict[tuple[int, CaseSet], tuple[Environment, asyncio.Task[tuple[Case, ...]]]] = (
            OrderedDict()
        )
        self._places = asyncio.Semaphore(slots)  # of the sandbox; only the background loop touches it
        self._verifiers = VerifierThreads(slots)  # beside the loop, so that a slow one does not hold up other answers
        self._background = BackgroundLoop("deepgym-loop")
        self._starting: asyncio.Task[None] | None = None
        # Also at the interpreter's end, so that no worker outlives a script that forgot to close.
        self._closer = weakref.finalize(self, _close, self._background, self._sandbox)

    @property
    def sandbox_name(self) -> str:
        """The backend that answers run in: what "auto" picked."""
        return self._sandbox.name

    @property
    def isolated(self) -> bool:
        return self._sandbox.isolated

    def run(self, env: Environment, answer: str, *, cases: CaseSet = "hidden") -> RunResult:
        """Run the code `answer` through `env` and return its verdict.

        `answer` is code; `deepgym.extract.extract_code` takes it out of a model's response. With cases="shown" the
        examples of the task text are run instead of the hidden cases.

        Raises VerifierError or SandboxError when no verdict was reached.
        """
        return self._background.wait(self._run(env, answer, cases))

    async def arun(
        self,
        env: Environment,
        answer: str,
        *,
        cases: CaseSet = "hidden",
        on_start: Callable[[], None] = lambda: None,
    ) -> RunResult:
        """`run` for coroutines. Cancelling it kills the answer; it returns when the answer's slot is free.

        `on_start` is called, on another thread, when the answer's turn in the sandbox has come.
        """
        return await self._background.wait_async(self._run(env, answer, cases, on_start), STOP_SECONDS)

    def run_batch(self, env: Environment, answers: Sequence[str]) -> BatchResult:
        """Run many answers. A run without a verdict becomes a result with has_verdict False and score NaN."""
        return self._background.wait(self._run_batch(env, answers))

    async def arun_batch(self, env: Environment, answers: Sequence[str]) -> BatchResult:
        return await self._background.wait_async(self._run_batch(env, answers), STOP_SECONDS)

    def run_job(self, job: Job) -> JobResult:
        """Run a bare job, without a verdict. Raises SandboxError."""
        return self._background.wait(self._run_job(job))

    async def arun_job(self, job: Job) -> JobResult:
        return await self._background.wait_async(self._run_job(job), STOP_SECONDS)

    def start(self) -> "DeepGym":
        """Bring the sandbox up now instead of with the first run. Raises SandboxUnavailableError."""
        self._background.wait(self._ensure_started())
        return self

    def close(self) -> None:
        """Kill what runs and stop the sandbox and the loop. Idempotent; a closed DeepGym runs nothing more."""
        self._closer()

    def __enter__(self) -> "DeepGym":
        return self

    def __exit__(self, kind: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None) -> None:
        self.close()

    async def _run(
        self, env: Environment, answer: str, cases: CaseSet, on_start: Callable[[], None] = lambda: None
    ) -> RunResult:
        chosen = await self._cases_of(env, cases)
        try:
            job = grading.build_job(env, answer, chosen)
        except grading.RejectedAnswer as exc:
            return grading.rejected(chosen, str(exc))
        run = await self._run_job(job, on_start)
        return await self._verifiers.run(f"{env.name}: verifier.judge", lambda: grading.grade(env, chosen, run))

    async def _run_batch(self, env: Environment, answers: Sequence[str]) -> BatchResult:
        width = asyncio.Semaphore(self.max_parallel * BATCH_WIDTH_PER_SLOT)

        async def one(answer: str) -> RunResult:
            async with width:
                try:
                    return await self._run(env, answer, "hidden")
                except BaseException as exc:  # whatever it is, it must cost one answer, not the batch
                    task = asyncio.current_task()
                    if isinstance(exc, GeneratorExit) or (task is not None and task.cancelling()):
                        raise  # the batch itself is ended; any other cancellation leaked from a provider's library
                    return grading.no_verdict(error_type_of(exc), named(exc))

        return BatchResult(tuple(await asyncio.gather(*(one(answer) for answer in answers))))

    async def _run_job(self, job: Job, on_start: Callable[[], None] = lambda: None) -> JobResult:
        await self._ensure_started()
        async with self._places:
            on_start()
            return await self._sandbox.run(job)

    async def _ensure_started(self) -> None:
        """Start the sandbox once; a start that failed is tried again by the next run."""
        starting = self._starting
        if starting is None or _failed(starting):
            starting = self._starting = asyncio.ensure_future(self._sandbox.start())
        await asyncio.shield(starting)  # one cancelled run does not stop the start that others wait for

    async def _cases_of(self, env: Environment, cases: CaseSet) -> tuple[Case, ...]:
        key = (id(env), cases)
        if key not in self._cases or _failed(self._cases[key][1]):
            make = grading.hidden_cases if cases == "hidden" else grading.shown_cases
            name = f"{env.name}: verifier.{'cases' if cases == 'hidden' else 'examples'}"
            # Kept as a task, so that many first runs at once make the cases once; the environment is kept beside it,
            # so that its id stays its own. What failed is made anew by the next run: it may have read a file.
            self._cases[key] = (env, asyncio.ensure_future(self._verifiers.run(name, lambda: make(env))))
        self._cases.move_to_end(key)
        while len(self._cases) > CASE_CACHE:
            self._cases.popitem(last=False)
        return await asyncio.shield(self._cases[key][1])


def _failed(task: "asyncio.Task[Any]") -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


def _close(background: BackgroundLoop, sandbox: Sandbox) -> None:
    background.stop(sandbox.close(), STOP_SECONDS)

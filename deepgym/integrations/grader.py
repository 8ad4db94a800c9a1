"""From responses to rewards: runs in slots, one deadline per request, one more try for infrastructure failures.

    queued -> first run -> verdict                                       its score
                        -> no verdict, not the infrastructure's fault    masked, never run again
                        -> infrastructure failure -> pause -> queued -> second run -> verdict, or masked

At the deadline everything that still runs is killed. A first run that had started scores 0: the answer may be what
slows it. Everything else that has no verdict is masked: it gets the reward the operator chose. So does a first run
that started less than MIN_RUN_S before the deadline and did not end in time: it came too late to be blamed.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

from deepgym.exceptions import DeepGymError, error_type_of, is_infrastructure_failure, named
from deepgym.extract import extract_code
from deepgym.integrations.masked_rate import MaskedRate
from deepgym.integrations.slots import Slots
from deepgym.models import Environment, ErrorType, RunResult

logger = logging.getLogger(__name__)

REGRADE_PAUSE_S = 1.0
MIN_RUN_S = 1.0  # a run that got less than this before the deadline was not given the time to show that it is slow
LONG_RESPONSE = 20_000  # characters; reading a longer one would hold up every other request


class Gym(Protocol):
    """The part of DeepGym that grading needs. Cancelling `arun` kills the run; `on_start` tells when it begins."""

    async def arun(
        self, env: Environment, answer: str, *, on_start: Callable[[], None] = lambda: None
    ) -> RunResult: ...


@dataclass(frozen=True, slots=True)
class Graded:
    """The reward of one sample. `masked`: it has no verdict and gets the operator's `infra_failure_score`.

    `result` is the run that gave the verdict; None where there is none.
    """

    reward: float
    error_type: ErrorType | None
    masked: bool
    result: RunResult | None = None


class _Stage(Enum):
    QUEUED = auto()
    FIRST_RUN = auto()
    ENDED = auto()  # the first run, without a verdict; a second one may follow


@dataclass(slots=True)
class _Sample:
    """How far the grading of one response has come."""

    response: str
    stage: _Stage = _Stage.QUEUED
    error_type: ErrorType | None = None  # of the first run, once it has failed
    result: RunResult | None = None  # with a verdict, in time


class Grader:
    """Grades responses for one environment; safe on any event loop.

    Args:
        masked_reward: what a sample without a verdict gets.
        observe: called with each graded sample; what it raises is logged.
    """

    def __init__(
        self,
        env: Environment,
        gym: Gym,
        masked_reward: float,
        slots: Slots,
        observe: Callable[[Graded], None] = lambda graded: None,
    ) -> None:
        self._env, self._gym, self._slots = env, gym, slots
        self._masked_reward = masked_reward
        self._observe = observe
        self._rate = MaskedRate(env.name)
        self._ending: set[asyncio.Task[None]] = set()  # killed runs on their way out; a task needs one who knows it

    async def grade(self, responses: Sequence[str | None], deadline: float) -> list[Graded]:
        """One outcome per response, at `deadline` (the running loop's clock) at the latest.

        None stands for a query that does not contain its prompt. Cancelling kills the runs.
        """
        loop = asyncio.get_running_loop()
        samples = [None if response is None else _Sample(response) for response in responses]
        tasks = {asyncio.create_task(self._grade(sample, deadline)): sample for sample in samples if sample is not None}
        try:
            if tasks:
                ended, _ = await asyncio.wait(tasks, timeout=max(0.0, deadline - loop.time()))
                for task in ended:
                    self._note_end(tasks[task], task)
        finally:
            for task in tasks:
                if task.cancel():
                    self._ending.add(task)
                    task.add_done_callback(self._ending.discard)
        return [self._settled(sample) for sample in samples]

    def _note_end(self, sample: _Sample, task: "asyncio.Task[None]") -> None:
        """A grading that ended by itself, with what `_run` does not catch, has no verdict: its run is not going on."""
        failure = asyncio.CancelledError() if task.cancelled() else task.exception()
        if failure is not None:
            _log_failure(self._env.name, failure)
            sample.error_type = sample.error_type or error_type_of(failure)
            sample.stage = _Stage.ENDED

    async def _grade(self, sample: _Sample, deadline: float) -> None:
        loop = asyncio.get_running_loop()
        first = await self._run(sample, deadline)
        if first is None or loop.time() > deadline:
            return
        if isinstance(first, RunResult) and first.has_verdict:
            sample.result = first
            return
        sample.error_type = _error_type(first)
        sample.stage = _Stage.ENDED
        if isinstance(first, RunResult) or not is_infrastructure_failure(first):
            return
        if loop.time() + REGRADE_PAUSE_S >= deadline:
            return
        await asyncio.sleep(REGRADE_PAUSE_S)
        second = await self._run(sample, deadline)
        if isinstance(second, RunResult) and second.has_verdict and loop.time() <= deadline:
            sample.result = second

    async def _run(self, sample: _Sample, deadline: float) -> RunResult | BaseException | None:
        """One run in one slot: its result, or what it raised; None when the deadline passed in the queue."""

        loop = asyncio.get_running_loop()

        def started() -> None:
            if sample.stage is _Stage.QUEUED and deadline - loop.time() >= MIN_RUN_S:
                sample.stage = _Stage.FIRST_RUN

        async with self._slots:
            if loop.time() >= deadline:
                return None
            try:
                return await self._gym.arun(self._env, await _code_of(sample.response), on_start=started)
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is not None and task.cancelling():
                    raise  # the deadline's kill, or the client left
                failure: BaseException = error  # some providers' libraries leak cancellations of their own
            except Exception as error:  # whatever it is, it must cost one sample, not the request
                failure = error
        _log_failure(self._env.name, failure)
        return failure

    def _settled(self, sample: _Sample | None) -> Graded:
        graded = self._outcome(sample)
        self._rate.count(graded.masked)
        if graded.result is None:
            logger.warning(
                "%s: a sample has no verdict (%s) and gets %s", self._env.name, graded.error_type, graded.reward
            )
        try:
            self._observe(graded)
        except Exception:  # the operator's code; a reward must not depend on it
            logger.warning("%s: observe failed on a sample", self._env.name, exc_info=True)
        return graded

    def _outcome(self, sample: _Sample | None) -> Graded:
        if sample is None:
            return Graded(self._masked_reward, ErrorType.PROMPT_MISMATCH, masked=True)
        if sample.result is not None:
            return Graded(sample.result.score, sample.result.error_type, masked=False, result=sample.result)
        if sample.stage is _Stage.FIRST_RUN:
            return Graded(0.0, ErrorType.DEADLINE_EXCEEDED, masked=False)
        return Graded(self._masked_reward, sample.error_type or ErrorType.DEADLINE_EXCEEDED, masked=True)


async def _code_of(response: str) -> str:
    if len(response) <= LONG_RESPONSE:
        return extract_code(response)
    return await asyncio.to_thread(extract_code, response)


def _error_type(run: RunResult | BaseException) -> ErrorType:
    if isinstance(run, RunResult):
        return run.error_type or ErrorType.UNKNOWN_ERROR
    return error_type_of(run)


def _log_failure(environment: str, failure: BaseException) -> None:
    """One line for a known failure; a traceback for one that nobody foresaw."""
    text = " ".join(named(failure).split())[:300]
    known = isinstance(failure, DeepGymError) or is_infrastructure_failure(failure)
    logger.warning("%s: a run failed: %s", environment, text, exc_info=None if known else failure)

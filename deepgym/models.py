"""The records of deepgym: what an environment is, what a case is, what a verdict is.

    Environment --verifier.cases(rng)--> Case --sandbox--> StepOutcome --verifier.judge--> CaseOutcome --> RunResult

A run is the answer's whole trip through one environment. Scores lie in [0, 1]; "no verdict" is a state of its own
(`has_verdict` false, score NaN) and never a 0.
"""

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Literal

from deepgym.sandbox.base import Limits, StepOutcome, check_relative_path

__all__ = [
    "BatchResult",
    "Case",
    "CaseOutcome",
    "Environment",
    "ErrorType",
    "Limits",
    "RunResult",
    "Verifier",
]

Kind = Literal["function", "program", "files"]
Language = Literal["python", "shell"]
Difficulty = Literal["easy", "medium", "hard"]
AnswerForm = Literal["single", "bundle"]


class ErrorType(StrEnum):
    """Why a run has score 0, or no verdict. The first three are the answer's own fault and leave a verdict."""

    SOLUTION_ERROR = "solution_error"  # no code, did not import, crashed, left, or raised in every case
    SOLUTION_TIMEOUT = "solution_timeout"  # used up its CPU time, or idled through its wall time
    POLICY_SANDBOX_FAILURE = "policy_sandbox_failure"  # broke a limit of its sandbox: memory, processes, disk, output

    SANDBOX_ERROR = "sandbox_error"  # the sandbox or its provider failed
    TIMEOUT = "timeout"  # the provider did not answer in time, or the host was too busy to run the answer
    VERIFIER_ERROR = "verifier_error"
    INVALID_SCORE = "invalid_score"
    UNKNOWN_ERROR = "unknown_error"
    DEADLINE_EXCEEDED = "deadline_exceeded"  # given by the reward router only
    PROMPT_MISMATCH = "prompt_mismatch"  # given by the reward router only

    @property
    def is_answers_fault(self) -> bool:
        """True where the failure is judged: the run has a verdict, and its score is 0."""
        return self in _ANSWERS_FAULT


_ANSWERS_FAULT = frozenset({ErrorType.SOLUTION_ERROR, ErrorType.SOLUTION_TIMEOUT, ErrorType.POLICY_SANDBOX_FAILURE})


@dataclass(frozen=True, slots=True)
class Case:
    """One test of an answer. The inputs enter the sandbox, `expected` never does.

    `args`/`kwargs` serve function tasks (JSON data); `stdin`, `argv` and `files` serve programs and files tasks.
    """

    name: str  # unique within the environment
    expected: Any = None  # for the judge's eyes only
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    stdin: bytes = b""
    argv: tuple[str, ...] = ()  # appended to the environment's command
    files: Mapping[str, bytes] = field(default_factory=dict)  # written over the environment's files for this case
    collect: tuple[str, ...] = ()  # files the answer has to leave behind
    group: str = "main"  # cases of one group earn their weight together or not at all
    hidden: bool = True  # False: shown in the task text, not graded


@dataclass(frozen=True, slots=True)
class Verifier:
    """The trusted side of an environment. It sees data and never runs the answer.

    cases(rng)            -> hidden cases; the same rng state gives the same cases
    judge(case, outcome)  -> score of one case in [0, 1], or a bool; asked only about steps with status "ok"
    examples()            -> cases shown in the task text
    """

    cases: Callable[[random.Random], Sequence[Case]]
    judge: Callable[[Case, StepOutcome], float | bool]
    examples: Callable[[], Sequence[Case]] = tuple


@dataclass(frozen=True, slots=True)
class Environment:
    """One verifiable task."""

    name: str
    title: str
    task: str  # what the model is asked, examples included
    kind: Kind
    language: Language
    entry: str  # function: the function's name. program, files: the file that is run ("solution.py")
    verifier: Verifier
    difficulty: Difficulty
    domain: str  # "dynamic programming", "text", "shell", ...
    tags: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    groups: Mapping[str, float] = field(default_factory=lambda: {"main": 1.0})  # group name -> weight, sum 1
    files: Mapping[str, bytes] = field(default_factory=dict)  # given to the answer: fixtures, library modules
    answer: AnswerForm = "single"  # "bundle": several files, each behind a line `=== path ===`
    seed: int = 0  # of the hidden cases

    def __post_init__(self) -> None:
        total = sum(self.groups.values())
        if not math.isclose(total, 1.0, abs_tol=1e-9) or min(self.groups.values()) < 0:
            raise ValueError(f"{self.name}: group weights must be >= 0 and sum to 1, got {dict(self.groups)}")
        if self.kind == "function" and self.language != "python":
            raise ValueError(f"{self.name}: function tasks are Python only, got language {self.language!r}")
        if self.kind != "function":
            try:
                check_relative_path(self.entry)
            except ValueError as error:
                raise ValueError(f"{self.name}: entry: {error}") from None
        elif not self.entry.isidentifier():
            raise ValueError(f"{self.name}: entry {self.entry!r} cannot be a function's name")

    def with_seed(self, seed: int) -> "Environment":
        """The same task with other hidden cases."""
        return replace(self, seed=seed)


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    """The verdict on one case. `detail` is one short line and never shows the expected value of a hidden case."""

    name: str
    passed: bool  # score is 1.0
    score: float  # [0, 1]
    group: str = "main"
    hidden: bool = True
    error_type: ErrorType | None = None  # set when the answer failed here; None for a wrong value
    detail: str = ""
    cpu_ms: float = 0.0
    wall_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class RunResult:
    """The verdict on one answer, or why there is none.

    score = sum over groups g of weight_g * min over cases c in g of score_c
    but 0 when the answer crashed, hung or broke its sandbox (then `error_type` says so).
    """

    score: float  # [0, 1]; NaN without a verdict
    passed: bool  # every case has score 1.0
    has_verdict: bool
    cases: tuple[CaseOutcome, ...] = ()
    error_type: ErrorType | None = None
    error_message: str = ""  # one short line
    wall_ms: float = 0.0
    cpu_ms: float = 0.0
    peak_memory_bytes: int = 0
    notes: tuple[str, ...] = ()  # from the sandbox: "memory limit by watchdog: not root"

    def __post_init__(self) -> None:
        if self.has_verdict != (0.0 <= self.score <= 1.0):
            raise ValueError(f"RunResult: has_verdict={self.has_verdict} does not go with score {self.score!r}")

    @property
    def pass_rate(self) -> float:
        """Share of cases passed; NaN without a verdict."""
        if not self.has_verdict or not self.cases:
            return math.nan
        return sum(case.passed for case in self.cases) / len(self.cases)


@dataclass(frozen=True, slots=True)
class BatchResult:
    """The results of many answers, in order. Means are over those with a verdict; the others are counted beside."""

    results: tuple[RunResult, ...]

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[RunResult]:
        return iter(self.results)

    def __getitem__(self, index: int) -> RunResult:
        return self.results[index]

    @property
    def scores(self) -> tuple[float, ...]:
        """One per answer; NaN without a verdict."""
        return tuple(result.score for result in self.results)

    @property
    def judged(self) -> tuple[RunResult, ...]:
        return tuple(result for result in self.results if result.has_verdict)

    @property
    def no_verdict_count(self) -> int:
        return len(self.results) - len(self.judged)

    @property
    def mean_score(self) -> float:
        """NaN when no answer has a verdict."""
        judged = self.judged
        return sum(result.score for result in judged) / len(judged) if judged else math.nan

    @property
    def pass_rate(self) -> float:
        """Share of judged answers that passed; NaN when no answer has a verdict."""
        judged = self.judged
        return sum(result.passed for result in judged) / len(judged) if judged else math.nan

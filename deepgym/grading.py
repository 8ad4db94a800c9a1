"""From an answer to a job, and from the job's outcomes to a verdict. No answer code runs here.

    environment + answer + cases -> build_job -> (sandbox) -> grade -> RunResult

Who is guilty of what:

- a call that raises, a program that ends with another exit code than 0, a wrong value: that case scores 0;
- a run that crashed its process, hung, or broke a limit: the whole answer scores 0, with the error type;
- a verifier that raises or gives no proper score: VerifierError, no verdict.
"""

import math
import numbers
import random
from collections.abc import Mapping, Sequence
from typing import Any

from deepgym.cases import faults_of
from deepgym.exceptions import InvalidScoreError, SandboxError, VerifierError, is_ctrl_c, named
from deepgym.extract import split_bundle
from deepgym.models import Case, CaseOutcome, Environment, ErrorType, RunResult
from deepgym.sandbox.base import FATAL_STATUSES, Call, Exec, Job, JobResult, StepOutcome

FUNCTION_MODULE = "solution.py"
MAX_ANSWER_CHARS = 500_000
MAX_VALUE_DEPTH = 64  # of what a call returns; judges may recurse into it
_INTERPRETERS: Mapping[str, tuple[str, ...]] = {"python": ("python3",), "shell": ("bash",)}
_ERROR_TYPES: Mapping[str, ErrorType] = {
    "error": ErrorType.SOLUTION_ERROR,
    "exited": ErrorType.SOLUTION_ERROR,
    "signal": ErrorType.SOLUTION_ERROR,
    "timeout": ErrorType.SOLUTION_TIMEOUT,
    "memory": ErrorType.POLICY_SANDBOX_FAILURE,
    "output_limit": ErrorType.POLICY_SANDBOX_FAILURE,
    "process_limit": ErrorType.POLICY_SANDBOX_FAILURE,
    "disk_limit": ErrorType.POLICY_SANDBOX_FAILURE,
}


class RejectedAnswer(Exception):
    """The answer cannot become a job (no code, no file headers); the verdict is 0 without a run."""


def hidden_cases(env: Environment) -> tuple[Case, ...]:
    """The environment's hidden cases for its seed. Raises VerifierError when the verifier cannot make proper ones."""
    try:
        cases = tuple(env.verifier.cases(random.Random(f"{env.name}:{env.seed}")))
    except BaseException as exc:
        if is_ctrl_c(exc):
            raise
        raise VerifierError(f"{env.name}: verifier.cases failed with seed {env.seed}: {named(exc)}") from exc
    return _checked_cases(env, cases, hidden=True)


def shown_cases(env: Environment) -> tuple[Case, ...]:
    """The examples of the task text. Raises VerifierError when the verifier cannot make proper ones."""
    try:
        cases = tuple(env.verifier.examples())
    except BaseException as exc:
        if is_ctrl_c(exc):
            raise
        raise VerifierError(f"{env.name}: verifier.examples failed: {named(exc)}") from exc
    return _checked_cases(env, cases, hidden=False)


def build_job(env: Environment, answer: str, cases: Sequence[Case]) -> Job:
    """The job that runs `answer` on the inputs of `cases`. Raises RejectedAnswer for an answer that is none."""
    code = _answer_files(env, answer)
    if env.kind == "function":
        calls = tuple(Call(env.entry, case.args, case.kwargs) for case in cases)
        return Job({**env.files, **code}, calls, env.limits, module=FUNCTION_MODULE)
    command = (*_INTERPRETERS[env.language], env.entry)
    files: dict[str, bytes] = {}
    steps = []
    for index, case in enumerate(cases):
        # A folder per case: what one run leaves behind meets no other run.
        folder = f"case_{index:03d}"
        for path, data in {**env.files, **code, **case.files}.items():
            files[f"{folder}/{path}"] = data
        steps.append(Exec((*command, *case.argv), case.stdin, case.collect, cwd=folder))
    return Job(files, tuple(steps), env.limits)


def grade(env: Environment, cases: Sequence[Case], run: JobResult) -> RunResult:
    """Judge a run. Raises VerifierError or InvalidScoreError for what the verifier broke, SandboxError for a run
    with too few outcomes."""
    if len(run.outcomes) != len(cases):
        raise SandboxError(f"{env.name}: the sandbox gave {len(run.outcomes)} outcomes for {len(cases)} steps")
    judged: list[CaseOutcome] = []
    fatal: StepOutcome | None = None
    for number, case in enumerate(cases):
        outcome = run.outcomes[number]
        judged.append(_judge(env, case, outcome))
        if fatal is None and outcome.status in FATAL_STATUSES:
            fatal = outcome
        del outcome  # before the next one's value is parsed: of one answer, one value at a time is in memory
    error_type, message = None, ""
    if fatal is not None:
        error_type, message = _ERROR_TYPES[fatal.status], fatal.error or fatal.status
    elif judged and all(case.error_type is not None for case in judged):
        error_type, message = judged[0].error_type, judged[0].detail
    return RunResult(
        score=0.0 if error_type is not None else _weighted(env, judged),
        passed=all(case.passed for case in judged),
        has_verdict=True,
        cases=tuple(judged),
        error_type=error_type,
        error_message=_short(message),
        wall_ms=run.wall_ms,
        cpu_ms=run.cpu_ms,
        peak_memory_bytes=run.peak_memory_bytes,
        notes=run.notes,
    )


def rejected(cases: Sequence[Case], reason: str) -> RunResult:
    """The verdict on an answer that never ran: 0 in every case."""
    outcomes = tuple(
        CaseOutcome(case.name, False, 0.0, case.group, case.hidden, ErrorType.SOLUTION_ERROR, reason) for case in cases
    )
    return RunResult(0.0, False, True, outcomes, ErrorType.SOLUTION_ERROR, reason)


def no_verdict(error_type: ErrorType, message: str) -> RunResult:
    """The result of a run that could not be judged."""
    return RunResult(math.nan, False, False, error_type=error_type, error_message=_short(message))


def _checked_cases(env: Environment, cases: tuple[Case, ...], hidden: bool) -> tuple[Case, ...]:
    """The cases if they fit the environment; VerifierError saying what does not."""
    if faults := faults_of(cases):
        raise VerifierError(f"{env.name}: verifier.{'cases' if hidden else 'examples'}: {faults}")
    problems = []
    names = [case.name for case in cases]
    if len(set(names)) < len(names):
        problems.append(f"case names are not unique: {names}")
    if hidden and {case.group for case in cases} != set(env.groups):
        problems.append(f"cases have groups {sorted({case.group for case in cases})}, env.toml {sorted(env.groups)}")
    for case in cases:
        if case.hidden != hidden:
            problems.append(f"case {case.name!r}: cases() makes hidden ones, examples() shown ones (hidden=False)")
        if env.kind == "function" and (case.stdin or case.argv or case.files or case.collect):
            problems.append(f"case {case.name!r}: a function task takes args and kwargs only")
        if env.kind != "function" and (case.args or case.kwargs):
            problems.append(f"case {case.name!r}: a {env.kind} task takes no args or kwargs")
    if problems:
        raise VerifierError(f"{env.name}: {'; '.join(problems[:5])}")
    return cases


def _answer_files(env: Environment, answer: str) -> dict[str, bytes]:
    if not answer.strip():
        raise RejectedAnswer("the answer holds no code")
    if len(answer) > MAX_ANSWER_CHARS:
        raise RejectedAnswer(f"the answer has {len(answer)} characters; at most {MAX_ANSWER_CHARS} are run")
    entry = FUNCTION_MODULE if env.kind == "function" else env.entry
    if env.answer == "single":
        return {entry: _encode(answer)}
    try:
        files = {path: _encode(content) for path, content in split_bundle(answer).items()}
    except ValueError as exc:
        raise RejectedAnswer(f"not a bundle of files: {exc}") from exc
    names = {*files, *env.files}
    folders = {path.rsplit("/", depth)[0] for path in names for depth in range(1, path.count("/") + 1)}
    if entry not in names:
        raise RejectedAnswer(f"the bundle has no file {entry!r}, which is the one that is run")
    if names & folders:
        raise RejectedAnswer(f"both a file and a folder: {sorted(names & folders)}")
    return files


def _encode(text: str) -> bytes:
    """UTF-8; a lone surrogate becomes bytes that are none: Python refuses such a file, a shell reads it as it is."""
    return text.encode("utf-8", errors="surrogatepass")


def _judge(env: Environment, case: Case, outcome: StepOutcome) -> CaseOutcome:
    error_type = _ERROR_TYPES.get(outcome.status)
    score, detail = 0.0, _short(outcome.error)
    if outcome.status == "not_run":
        detail = "not run: an earlier case ended the run"
    elif outcome.status == "ok":
        if _deeper_than(outcome.value, MAX_VALUE_DEPTH):
            error_type, detail = ErrorType.SOLUTION_ERROR, f"value nested deeper than {MAX_VALUE_DEPTH}"
        else:
            score = _score(env, case, outcome)
            detail = "" if score == 1.0 else _difference(env, case, outcome)
    elif outcome.status == "error" and not detail:
        detail = f"exit code {outcome.exit_code}"
    return CaseOutcome(
        name=case.name,
        passed=score == 1.0,
        score=score,
        group=case.group,
        hidden=case.hidden,
        error_type=error_type,
        detail=detail,
        cpu_ms=outcome.cpu_ms,
        wall_ms=outcome.wall_ms,
    )


def _score(env: Environment, case: Case, outcome: StepOutcome) -> float:
    try:
        score = env.verifier.judge(case, outcome)
    except BaseException as exc:
        if is_ctrl_c(exc):
            raise
        raise VerifierError(f"{env.name}: verifier.judge failed on case {case.name!r}: {named(exc)}") from exc
    if not _is_number(score) or not 0 <= score <= 1:
        raise InvalidScoreError(
            f"{env.name}: verifier.judge gave {_brief(score)} for case {case.name!r}; it must be a bool or in [0, 1]"
        )
    return float(score)


def _is_number(score: Any) -> bool:
    """True for Python's numbers and numpy's scalars, whose bool is registered as no number; it is known by its name,
    as deepgym does without numpy."""
    kind = type(score)
    return isinstance(score, numbers.Real) or (kind.__module__ == "numpy" and kind.__name__ in ("bool", "bool_"))


def _weighted(env: Environment, judged: Sequence[CaseOutcome]) -> float:
    """sum over groups of weight * lowest case score; without hidden cases, the share of shown ones passed."""
    lowest: dict[str, float] = {}
    for case in judged:
        if case.hidden:
            lowest[case.group] = min(case.score, lowest.get(case.group, 1.0))
    if not lowest:
        return sum(case.score for case in judged) / len(judged) if judged else 0.0
    return min(1.0, sum(env.groups[group] * worst for group, worst in lowest.items()))


def _difference(env: Environment, case: Case, outcome: StepOutcome) -> str:
    if case.hidden:
        return "wrong output"
    got = outcome.value if env.kind == "function" else outcome.stdout
    return f"got {_brief(got)}, expected {_brief(case.expected)}"


def _deeper_than(value: Any, depth: int) -> bool:
    """True when lists and dicts are nested more than `depth` times (iteratively: the value is hostile)."""
    level = [value]
    for _ in range(depth):
        inner: list[Any] = []
        for item in level:
            if isinstance(item, list):
                inner.extend(item)
            elif isinstance(item, dict):
                inner.extend(item.values())
        if not inner:
            return False
        level = inner
    return any(isinstance(item, list | dict) for item in level)


def _brief(value: Any, width: int = 120) -> str:
    """A short repr of shallow data; an int with thousands of digits cannot be written in decimal."""
    if isinstance(value, int) and value.bit_length() > 256:
        return f"an integer of {value.bit_length()} bits"
    if isinstance(value, list):
        inside = ", ".join(_brief(item) for item in value[:20])
        return _short(f"[{inside}{', ...' if len(value) > 20 else ''}]", width)
    if isinstance(value, dict):
        inside = ", ".join(f"{key!r}: {_brief(item)}" for key, item in list(value.items())[:20])
        return _short(f"{{{inside}}}", width)
    if isinstance(value, str | bytes):
        return _short(repr(value[:width]), width)
    return _short(repr(value), width)


def _short(text: str, width: int = 300) -> str:
    line = " ".join(text[: width * 4].encode("utf-8", errors="replace").decode().split())
    return line if len(line) <= width else line[: width - 3] + "..."

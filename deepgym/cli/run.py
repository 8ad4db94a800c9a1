"""deepgym run"""

import io
import json
import sys
from dataclasses import asdict
from typing import Annotated, Any, Literal

import tyro

from deepgym.cli.errors import EXIT_NO_VERDICT, EXIT_NOT_PASSED, UsageError
from deepgym.cli.options import Where
from deepgym.exceptions import SandboxError, VerifierError
from deepgym.extract import extract_code
from deepgym.models import CaseOutcome, RunResult


def run(
    environment: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENVIRONMENT")],
    answer: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ANSWER")],
    where: Annotated[Where, tyro.conf.arg(name="")] = Where(),  # noqa: B008 (frozen)
    cases: Literal["hidden", "shown"] = "hidden",
    seed: int = 0,
    json: bool = False,
) -> int:
    """Run one answer and print its verdict, case by case.

    Args:
        environment: Its name, or the path of its folder.
        answer: A file, or - for stdin: code, or a model's response whose last fenced code block is the code.
        where: Which environments there are, and where answers run.
        cases: The hidden cases that are graded, or the examples of the task text.
        seed: Which set of hidden cases.
        json: Print the verdict as JSON.
    """
    env = where.environment(environment, seed)
    code = extract_code(_read(answer))
    with where.gym([environment]) as dg:
        try:
            result = dg.run(env, code, cases=cases)
        except (SandboxError, VerifierError) as error:
            print(f"no verdict: {' '.join(str(error).split())}", file=sys.stderr)
            return EXIT_NO_VERDICT
    print(_as_json(result) if json else "\n".join(_lines(result)))
    if not result.has_verdict:
        return EXIT_NO_VERDICT
    return 0 if result.passed else EXIT_NOT_PASSED


def _read(name: str) -> str:
    try:
        if name == "-":
            if not isinstance(sys.stdin, io.TextIOWrapper):
                return sys.stdin.read()
            # As a file's text is read, whatever the locale.
            return io.TextIOWrapper(io.BytesIO(sys.stdin.buffer.read()), encoding="utf-8").read()
        with open(name, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"the answer {name!r} cannot be read: {error}") from error


def _lines(result: RunResult) -> list[str]:
    width = max((len(case.name) for case in result.cases), default=0)
    lines = [_case_line(case, width) for case in result.cases]
    if not result.has_verdict:
        lines.append(f"no verdict: {result.error_type}: {result.error_message}")
        return lines
    failure = f" ({result.error_type}: {result.error_message})" if result.error_type else ""
    lines.append(f"{'passed' if result.passed else 'failed'}, score {result.score:.3f}{failure}")
    usage = (
        f"{result.wall_ms:.0f} ms, {result.cpu_ms:.0f} ms of CPU, {result.peak_memory_bytes / 2**20:.1f} MiB at most"
    )
    return [*lines, usage, *result.notes]


def _case_line(case: CaseOutcome, width: int) -> str:
    why = ": ".join(part for part in (case.error_type, case.detail) if part)
    return f"{case.name.ljust(width)}  {'passed' if case.passed else 'failed'}  {case.score:.3f}  {why}".rstrip()


def _as_json(result: RunResult) -> str:
    """One object; the score is null where there is no verdict."""
    fields: dict[str, Any] = asdict(result)
    if not result.has_verdict:
        fields["score"] = None
    return json.dumps(fields, indent=2, allow_nan=False)

"""The door to deepgym: code blocks run in its sandbox, called inside this process.

The sandbox keeps the code away from network, files and processes of this machine; see deepgym/sandbox/base.py.
"""

import asyncio
from typing import Literal, Protocol

from deepgym.core import DeepGym
from deepgym.exceptions import SandboxError, SandboxUnavailableError
from deepgym.sandbox.base import Exec, Job, Limits, StepOutcome
from openrlhf.env.code_result import CodeResult, finished
from openrlhf.env.errors import EnvError

# SandboxFusion's word where it has one.
_WORDS = {
    "timeout": "TimeLimitExceeded",
    "memory": "MemoryLimitExceeded",
    "output_limit": "OutputLimitExceeded",
    "process_limit": "ProcessLimitExceeded",
    "disk_limit": "DiskLimitExceeded",
}


class RunnerDown(Exception):
    """What should have run the code failed; a second try may work. One line; names it."""


class CodeRunner(Protocol):
    """Runs one program at a time of many."""

    async def run(self, code: str) -> CodeResult:
        """Raises RunnerDown; whatever the program does is a result."""
        ...

    async def close(self) -> None: ...


class SandboxRunner:
    """A CodeRunner that runs Python in a sandbox of its own."""

    def __init__(self, sandbox: Literal["auto", "local", "docker"], slots: int, run_timeout: float) -> None:
        """Args:
            slots: programs at once.
            run_timeout: seconds of a program's own time; waiting for a busy machine does not count.

        Raises:
            EnvError: this machine has no such sandbox.
        """
        try:
            self._deepgym = DeepGym(sandbox, max_parallel=slots)
        except SandboxUnavailableError as error:
            raise EnvError(f"--env.code.sandbox {sandbox}: {error}") from error
        self._limits = Limits(cpu_seconds=run_timeout, wall_seconds=run_timeout)

    async def run(self, code: str) -> CodeResult:
        program = code.encode("utf-8", "replace")  # half a surrogate pair is the program's own mistake
        job = Job({"main.py": program}, (Exec(("python3", "main.py")),), self._limits)
        try:
            result = await self._deepgym.arun_job(job)
        except SandboxError as error:
            raise RunnerDown(f"deepgym's sandbox: {error}") from error
        return _result(result.outcomes[0])

    async def close(self) -> None:
        await asyncio.to_thread(self._deepgym.close)


def _result(outcome: StepOutcome) -> CodeResult:
    if outcome.status in ("ok", "error"):
        stdout, stderr = (stream.decode("utf-8", "replace") for stream in (outcome.stdout, outcome.stderr))
        return finished(stdout, stderr, outcome.status == "ok")
    return CodeResult(_WORDS.get(outcome.status, outcome.error or outcome.status), error=True)

"""A sandbox without walls, for tests of what stands around sandboxes; apart from `fakes.py`, which loads torch.

Answers run as plain processes of the test's own user, so only answers that the repository itself holds belong here.
"""

import asyncio
import json
import os
import resource
import signal
import sys
import tempfile
import time
from pathlib import Path

from deepgym.sandbox.base import FATAL_STATUSES, Call, Exec, Job, JobResult, Limits, StepOutcome

# Runs all calls of a job in one process: reads one JSON line per call, answers with one.
CALLS = """
import importlib, json, os, sys
replies = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
sys.path.insert(0, os.getcwd())
module, broken = None, None
try:
    module = importlib.import_module(sys.argv[1])
except BaseException as exc:
    broken = f"import: {type(exc).__name__}: {exc}"
for line in sys.stdin:
    call = json.loads(line)
    reply = {"status": "error", "error": broken}
    if broken is None:
        try:
            value = getattr(module, call["function"])(*call["args"], **call["kwargs"])
            reply = {"status": "ok", "value": json.loads(json.dumps(value))}
        except MemoryError:
            reply = {"status": "memory"}
        except BaseException as exc:
            reply = {"status": "error", "error": f"{type(exc).__name__}: {exc}"}
    print(json.dumps(reply), file=replies, flush=True)
"""


class PlainSandbox:
    """Runs jobs as plain processes with CPU and memory limits of one process. `slots` of them at once."""

    name = "plain"
    isolated = False

    def __init__(self, slots: int = 2) -> None:
        self.slots = slots
        self.running = self.most_running = self.jobs = 0

    async def start(self) -> None:
        self._free = asyncio.Semaphore(self.slots)

    async def close(self) -> None: ...

    async def run(self, job: Job) -> JobResult:
        async with self._free:
            self.running += 1
            self.jobs += 1
            self.most_running = max(self.most_running, self.running)
            try:
                with tempfile.TemporaryDirectory() as folder:
                    return await self._run(job, Path(folder))
            finally:
                self.running -= 1

    async def _run(self, job: Job, folder: Path) -> JobResult:
        for name, data in job.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        start, cpu = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        calls = [step for step in job.steps if isinstance(step, Call)]
        outcomes = await run_calls(job, calls, folder) if calls else await run_programs(job, folder)
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu_ms = 1000 * (used.ru_utime + used.ru_stime - cpu.ru_utime - cpu.ru_stime)
        return JobResult(tuple(outcomes), cpu_ms, 1000 * (time.perf_counter() - start), 1 << 20, ("no isolation",))


async def run_calls(job: Job, calls: list[Call], folder: Path) -> list[StepOutcome]:
    lines = [json.dumps({"function": c.function, "args": c.args, "kwargs": dict(c.kwargs)}) for c in calls]
    module = (job.module or "").removesuffix(".py")
    stdout, _, code = await execute(
        [sys.executable, "-I", "-c", CALLS, module], "\n".join(lines).encode(), folder, job.limits
    )
    outcomes = [StepOutcome(**json.loads(line)) for line in stdout.decode().splitlines()]
    if len(outcomes) < len(calls):
        outcomes.append(StepOutcome(ended(code), error=f"exit code {code}"))
    return outcomes + [StepOutcome("not_run")] * (len(calls) - len(outcomes))


async def run_programs(job: Job, folder: Path) -> list[StepOutcome]:
    outcomes: list[StepOutcome] = []
    for step in job.steps:
        assert isinstance(step, Exec)
        if any(outcome.status in FATAL_STATUSES for outcome in outcomes):
            outcomes.append(StepOutcome("not_run"))
            continue
        cwd = folder / step.cwd
        stdout, stderr, code = await execute(list(step.argv), step.stdin, cwd, job.limits)
        files = {name: (cwd / name).read_bytes() for name in step.collect if (cwd / name).is_file()}
        status = "ok" if code == 0 else "error" if code > 0 else ended(code)
        if len(stdout) > job.limits.output_bytes:
            status = "output_limit"
        outcomes.append(StepOutcome(status, None, stdout, stderr, code, files))
    return outcomes


async def execute(argv: list[str], stdin: bytes, cwd: Path, limits: Limits) -> tuple[bytes, bytes, int]:
    cpu = int(limits.cpu_seconds)
    argv = ["prlimit", f"--cpu={cpu}:{cpu + 1}", f"--as={limits.memory_bytes}", *argv]
    environment = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        *argv, cwd=cwd, stdin=pipe, stdout=pipe, stderr=pipe, env=environment, start_new_session=True
    )
    try:
        stdout, stderr = await asyncio.wait_for(process.communicate(stdin), limits.wall_seconds)
    except (TimeoutError, asyncio.CancelledError) as exc:
        os.killpg(process.pid, signal.SIGKILL)
        await process.wait()
        if isinstance(exc, TimeoutError):
            return b"", b"", -signal.SIGXCPU
        raise
    assert process.returncode is not None
    return stdout, stderr, process.returncode


def ended(code: int) -> str:
    """Status of a call's process that is gone."""
    return "timeout" if code in (-signal.SIGXCPU, -signal.SIGKILL) else "signal" if code < 0 else "exited"

"""What goes into a sandbox and what comes out: data only, both ways.

    Job (files, steps, limits) --> Sandbox.run --> JobResult (one StepOutcome per step)

A job never holds an expected output, so nothing that runs inside can know what would be right; the judge
(`deepgym.grading`) compares the outcomes afterwards, outside.

What every backend gives a step: an empty, writable working directory with `Job.files` in it, no network,
`python3`, `bash`, `sh` and the usual text tools (`sort`, `awk`, `sed`, `grep`, `find`, ...) on PATH, a UTF-8
locale whatever the host's, real pipes on descriptors 0, 1 and 2.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

MIB = 1024 * 1024

# The most that each limit may be: what no answer needs, and what every kernel and container engine can count.
_MOST: dict[str, int] = {
    "cpu_seconds": 86_400,
    "wall_seconds": 86_400,
    "memory_bytes": 1024 * 1024 * MIB,
    "processes": 32_768,
    "open_files": 65_536,
    "output_bytes": 1024 * MIB,
    "disk_bytes": 1024 * 1024 * MIB,
}


@dataclass(frozen=True, slots=True)
class Limits:
    """What one job may use, all its steps and all its processes together; a breach ends the job.

    CPU time decides guilt before wall time does. `cpu_seconds` is the answer's own work, so a busy host cannot
    use it up. `wall_seconds` is there for answers that sleep or wait: only time in which the answer did not ask
    for a core counts as its own (wall time less the time its processes stood waiting for one), and an answer
    stopped without having used either budget gets no verdict (`deepgym.exceptions.SandboxStarvedError`), never a 0.
    """

    cpu_seconds: float = 10.0  # user + system, whole job
    wall_seconds: float = 30.0  # whole job
    memory_bytes: int = 512 * MIB  # summed over the process tree at any moment
    processes: int = 32  # processes and threads alive at once
    open_files: int = 64  # descriptors of one process
    output_bytes: int = 1 * MIB  # per step: stdout, stderr, the JSON of a value and collected files, each
    disk_bytes: int = 64 * MIB  # the working directory and the temporary directory, together

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            seconds = name in ("cpu_seconds", "wall_seconds")
            if isinstance(value, bool) or not isinstance(value, int | float if seconds else int):
                raise ValueError(f"Limits.{name} is {value!r}; it must be a {'number' if seconds else 'whole number'}")
            if not 0 < value <= _MOST[name]:  # NaN is in no range
                raise ValueError(f"Limits.{name} is {value!r}; it must be above 0 and at most {_MOST[name]:,}")


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a function that the answer's module defines. Arguments are JSON data (no tuples, no sets)."""

    function: str
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Exec:
    """One program run. `argv[0]` is looked up on the jail's PATH."""

    argv: tuple[str, ...]
    stdin: bytes = b""  # a real pipe, closed after the last byte
    collect: tuple[str, ...] = ()  # files to bring back, relative to cwd: regular files only, links not followed
    cwd: str = "."  # relative to the job's working directory, inside it


Step = Call | Exec


@dataclass(frozen=True, slots=True)
class Job:
    """One answer's whole run.

    All Calls share one fresh process that imports `module` (a path in `files`) first, so a job pays for one
    interpreter; each Exec is a process of its own in the same jail. Steps run one after the other, in order, and
    a later step's input is not in the jail before its turn. Processes that outlive their step are killed.
    """

    files: Mapping[str, bytes]  # relative POSIX paths inside the working directory
    steps: tuple[Step, ...]
    limits: Limits = field(default_factory=Limits)
    module: str | None = None  # needed when there is a Call

    def __post_init__(self) -> None:
        for path in self.files:
            check_relative_path(path)
        for step in self.steps:
            if isinstance(step, Exec):
                check_relative_path(step.cwd)
                for path in step.collect:
                    check_relative_path(path)
                if not step.argv:
                    raise ValueError("Exec with an empty argv")
            elif self.module is None:
                raise ValueError(f"Job has a Call of {step.function!r} but no module to import it from")
        if self.module is not None and self.module not in self.files:
            raise ValueError(f"Job.module {self.module!r} is not among its files: {sorted(self.files)}")


StepStatus = Literal[
    "ok",  # Call: returned JSON data. Exec: ended with exit code 0
    "error",  # Call: raised, its module failed to import, or the value is not JSON data. Exec: exit code not 0
    "exited",  # Call only: the process ended inside the call or the import (os._exit and the like)
    "signal",  # killed by a signal that no limit explains (a crash, a forbidden system call, its own kill)
    "timeout",  # used up cpu_seconds, or idled through wall_seconds
    "memory",
    "output_limit",
    "process_limit",
    "disk_limit",
    "not_run",  # an earlier step ended the job
]

# After one of these the job is over: its remaining steps are `not_run`.
FATAL_STATUSES: frozenset[str] = frozenset(
    {"exited", "signal", "timeout", "memory", "output_limit", "process_limit", "disk_limit"}
)


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """What one step did. Times are what the jail reported and serve as information, never as a verdict."""

    status: StepStatus
    value: Any = None  # Call: what it returned, as JSON data (tuples arrive as lists, dict keys as strings)
    stdout: bytes = b""  # at most Limits.output_bytes
    stderr: bytes = b""
    exit_code: int | None = None  # Exec: 0..255, or minus the signal's number
    files: Mapping[str, bytes] = field(default_factory=dict)  # Exec: those of `collect` that exist
    error: str = ""  # one short line: "ValueError: bad coin", "CPU limit of 10 s reached"
    cpu_ms: float = 0.0
    wall_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class JobResult:
    """One outcome per step of the job, and what the whole process tree used, measured from outside."""

    outcomes: Sequence[StepOutcome]  # a returned value may be parsed anew each time that its outcome is looked at
    cpu_ms: float = 0.0
    wall_ms: float = 0.0
    peak_memory_bytes: int = 0
    notes: tuple[str, ...] = ()  # what the reader of a verdict should know: "memory limit by watchdog: not root"


class Sandbox(Protocol):
    """A place that runs jobs of untrusted code.

    `run` may be called many times at once on the loop that called `start`; the backend queues what exceeds its
    slots. Cancelling the awaiting task kills the run, and the slot is free when the cancellation has returned.
    `run` raises `deepgym.exceptions.SandboxError` (or a subclass) for what the sandbox or its provider broke, and
    for nothing else: whatever the answer does is a StepOutcome.
    """

    name: str  # "local", "docker"
    isolated: bool  # False: runs without a jail, because the user said so in words

    async def start(self) -> None:
        """Bring up the workers. Raises SandboxUnavailableError when a needed tool or engine is missing."""
        ...

    async def run(self, job: Job) -> JobResult: ...

    async def close(self) -> None:
        """Kill what runs and leave nothing behind. Idempotent."""
        ...


def check_relative_path(path: str) -> str:
    """Return `path` if it is a plain relative POSIX path that stays inside its folder; raise ValueError otherwise."""
    parts = path.split("/")
    if not path or "\x00" in path or "\\" in path or path.startswith("/") or ".." in parts or "" in parts:
        raise ValueError(f"{path!r} is not a plain relative path inside the working directory")
    return path

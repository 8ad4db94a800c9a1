"""The host's side of the runner's protocol: a Job becomes frames, frames become a JobResult.

Nothing that an answer writes can make this raise, run code, or grow beyond the job's limits: a value stays JSON text
until its outcome is looked at, and is then parsed with the depth and digit limits of Python's parser.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, overload

from deepgym.exceptions import SandboxError, SandboxStarvedError
from deepgym.sandbox.base import FATAL_STATUSES, Call, Job, JobResult, Limits, Step, StepOutcome
from deepgym.sandbox.runner.defences import Defences
from deepgym.sandbox.runner.wire import Frame, FrameBuffer, pack

_FRAME_SLACK = 1 << 20  # headers, paths
ALL_DEFENCES = Defences()
ENVIRONMENT: Mapping[str, str] = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",  # the same answer gets the same verdict every time
    # One thread: pools of BLAS libraries reserve memory for every core of the host.
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
}


def encode_job(
    job: Job,
    *,
    work: str,
    tmp: str,
    nproc: int | None,
    environment: Mapping[str, str] = ENVIRONMENT,
    own_disk: bool = True,
    defences: Defences = ALL_DEFENCES,
) -> Iterator[bytes]:
    """The frames of one job: the set-up with the files, then one for each step.

    Args:
        work: the working directory's path inside the jail.
        tmp: the temporary directory's.
        nproc: RLIMIT_NPROC of the answer's processes; None where the jail bounds them otherwise.
        environment: of the answer; HOME and TMPDIR are added.
        own_disk: `work` is a file system of its own.
        defences: less than all of them in tests only.
    """
    setup = {
        "limits": asdict(job.limits),
        "steps": len(job.steps),
        "files": list(job.files),
        "module": job.module,
        "work": work,
        "environment": {**environment, "HOME": work, "TMPDIR": tmp},
        "nproc": nproc,
        "own_disk": own_disk,
        "defences": asdict(defences),
    }
    yield pack(setup, list(job.files.values()))
    for step in job.steps:
        yield _encode_step(step)


def _encode_step(step: Step) -> bytes:
    if isinstance(step, Call):
        call = {"function": step.function, "args": list(step.args), "kwargs": dict(step.kwargs)}
        return pack({"kind": "call"}, [json.dumps(call).encode()])
    return pack({"kind": "exec", "argv": list(step.argv), "collect": list(step.collect), "cwd": step.cwd}, [step.stdin])


class Outcomes(Sequence[StepOutcome]):
    """The outcomes of one job, with each returned value parsed anew whenever its outcome is looked at.

    As Python objects, JSON takes up to some forty times the memory of its text. So nothing parsed is kept here: who
    looks at one outcome after the other has one value at a time, in the thread that looks.

    Args:
        outcomes: all of them, without values.
        texts: the JSON text of what a call returned, by the number of its step.
    """

    def __init__(self, outcomes: Sequence[StepOutcome], texts: Mapping[int, bytes]) -> None:
        self._outcomes, self._texts = outcomes, texts

    def __len__(self) -> int:
        return len(self._outcomes)

    @overload
    def __getitem__(self, index: int) -> StepOutcome: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[StepOutcome, ...]: ...
    def __getitem__(self, index: int | slice) -> StepOutcome | tuple[StepOutcome, ...]:
        if isinstance(index, slice):
            return tuple(self[number] for number in range(len(self))[index])
        number = range(len(self))[index]  # also of an index from the end
        outcome, text = self._outcomes[number], self._texts.get(number)
        return outcome if text is None else _with_value(outcome, text)

    def __iter__(self) -> Iterator[StepOutcome]:
        for number in range(len(self)):
            yield self[number]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Outcomes | tuple | list) and tuple(self) == tuple(other)

    def __repr__(self) -> str:
        return repr(tuple(self))


class ResultReader:
    """Collects the frames of one job's outcomes.

    started:  the jail was ready and the answer's code may have run; from here on a jail that is lost each time
              is the answer's doing.
    finished: the last frame is in.
    cut_off:  the runner ended without having said why.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self._frames = FrameBuffer(max_bytes=4 * job.limits.output_bytes + _FRAME_SLACK)
        self._outcomes: list[StepOutcome] = []
        self._summary: dict[str, Any] | None = None
        self._starved = False
        self._texts: dict[int, bytes] = {}  # of returned values, by their outcome's number
        self.started = False

    @property
    def finished(self) -> bool:
        return self._summary is not None

    @property
    def cut_off(self) -> bool:
        return self._summary is None and not self._starved

    def feed(self, data: bytes) -> None:
        """Take bytes from the runner.

        Raises:
            SandboxError: they are no frames, so the runner itself is broken.
        """
        try:
            for frame in self._frames.feed(data):
                self._take(frame)
        except (ValueError, KeyError, TypeError, IndexError) as error:
            raise SandboxError(f"the sandbox's runner broke its protocol: {error}") from error

    def result(self, *extra_notes: str) -> JobResult:
        """The outcome of every step; those that did not come are `not_run`.

        Raises:
            SandboxStarvedError: the host gave the answer no core to run on.
            SandboxError: the jail was lost before the answer started.
        """
        if self._starved:
            wall = self._job.limits.wall_seconds
            raise SandboxStarvedError(f"the host was too busy: the answer mostly stood waiting for a core ({wall:g} s)")
        if self._summary is None:
            if not self.started:
                raise SandboxError("the jail ended before the answer started")
            # A jail that dies around the answer is never no verdict: an answer could wish for that.
            self._outcomes.append(StepOutcome("signal", error="the answer's sandbox ended while it ran"))
        total = len(self._job.steps)
        outcomes = (*self._outcomes, *(StepOutcome("not_run") for _ in range(total)))[:total]
        summary = self._summary or {"cpu_ms": 0.0, "wall_ms": 0.0, "peak_memory_bytes": 0, "notes": []}
        notes = (*extra_notes, *summary["notes"])
        return JobResult(
            Outcomes(outcomes, self._texts),
            summary["cpu_ms"],
            summary["wall_ms"],
            summary["peak_memory_bytes"],
            notes,
        )

    def _take(self, frame: Frame) -> None:
        header, blobs = frame
        if "ready" in header:
            self.started = True
        elif "refused" in header:
            self._outcomes.append(StepOutcome(header["refused"], error=header["error"]))
        elif "done" in header:
            self._summary = header
        elif "starved" in header or header["status"] == "starved":
            self._starved = True
        elif isinstance(self._job.steps[header["step"]], Call):
            if header["status"] == "ok":
                self._texts[len(self._outcomes)] = blobs[0]
            self._outcomes.append(_call_outcome(header, blobs, self._job.limits))
        else:
            self._outcomes.append(_exec_outcome(header, blobs, self._job.limits))


def _call_outcome(header: dict[str, Any], blobs: list[bytes], limits: Limits) -> StepOutcome:
    """Without the value."""
    return StepOutcome(
        header["status"],
        stdout=blobs[1],
        stderr=blobs[2],
        error=_one_line(header["error"]) or _explain(header["status"], limits),
        cpu_ms=header["cpu_ms"],
        wall_ms=header["wall_ms"],
    )


def _with_value(outcome: StepOutcome, text: bytes) -> StepOutcome:
    """The outcome of a call that returned this JSON text; what is none is the answer's error."""
    try:
        return replace(outcome, value=parse_value(text))
    except (ValueError, RecursionError) as failure:
        error = f"the returned value is not JSON data: {str(failure)[:200]}"
        return replace(outcome, status="error", error=_one_line(error))


def _exec_outcome(header: dict[str, Any], blobs: list[bytes], limits: Limits) -> StepOutcome:
    return StepOutcome(
        header["status"],
        stdout=blobs[0],
        stderr=blobs[1],
        exit_code=header["exit_code"],
        files=dict(zip(header["files"], blobs[2:], strict=True)),
        error=_one_line(header["error"]) or _explain(header["status"], limits),
        cpu_ms=header["cpu_ms"],
        wall_ms=header["wall_ms"],
    )


def parse_value(text: bytes) -> Any:
    """JSON text of an answer as data: NaN and infinities pass, half of a surrogate pair does not.

    Raises:
        ValueError: not JSON, an integer of more than 4300 digits, or text that UTF-8 cannot hold.
        RecursionError: nested too deeply.
    """
    value = json.loads(text.decode())
    if b"\\ud" in text or b"\\uD" in text:
        json.dumps(value, ensure_ascii=False).encode()  # UnicodeEncodeError is a ValueError
    return value


def _one_line(text: str) -> str:
    """Printable, short, valid UTF-8."""
    if not text:
        return ""
    flat = " ".join(text.encode(errors="backslashreplace").decode().split())
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in flat)[:300]


def _explain(status: str, limits: Limits) -> str:
    """What to tell about a broken limit."""
    if status not in FATAL_STATUSES:
        return ""
    mib = 1 << 20
    return {
        "timeout": f"used up {limits.cpu_seconds:g} s of CPU time, or idled through {limits.wall_seconds:g} s",
        "memory": f"more than {limits.memory_bytes / mib:g} MiB of memory",
        "output_limit": f"more than {limits.output_bytes / mib:g} MiB of output",
        "process_limit": f"more than {limits.processes} processes and threads",
        "disk_limit": f"more than {limits.disk_bytes / mib:g} MiB on disk",
        "signal": "killed by a signal",
    }.get(status, "")

"""The host's side of the runner's protocol: a Job becomes frames, frames become a JobResult.

Nothing that an answer writes can make this raise, run code, or grow beyond the job's limits: a value is JSON text,
parsed here with the depth and digit limits of Python's parser, and only while what the job's values take as Python
objects stays below MAX_VALUES_BYTES.
"""

import gc
import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from deepgym.exceptions import SandboxError, SandboxStarvedError
from deepgym.sandbox.base import FATAL_STATUSES, Call, Job, JobResult, Limits, Step, StepOutcome
from deepgym.sandbox.runner.defences import Defences
from deepgym.sandbox.runner.wire import Frame, FrameBuffer, pack

_FRAME_SLACK = 1 << 20  # headers, paths
MAX_VALUES_BYTES = 64 << 20  # of all that one answer's calls return, as Python objects
# The most memory that one character of JSON stands for: the container or number it opens or separates, half a string.
_OBJECT_BYTES: Mapping[bytes, int] = {b"{": 200, b"[": 100, b",": 48, b'"': 36}
_WIDEST_CHARACTER = 4  # bytes in memory for each byte of text, where a string holds more than ASCII
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
        self._values_bytes = 0
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
        return JobResult(outcomes, summary["cpu_ms"], summary["wall_ms"], summary["peak_memory_bytes"], notes)

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
            self._values_bytes += _size_as_objects(blobs[0])
            fits = self._values_bytes <= MAX_VALUES_BYTES
            self._outcomes.append(_call_outcome(header, blobs, self._job.limits, fits))
        else:
            self._outcomes.append(_exec_outcome(header, blobs, self._job.limits))


def _call_outcome(header: dict[str, Any], blobs: list[bytes], limits: Limits, fits: bool) -> StepOutcome:
    status, error, value = header["status"], header["error"], None
    if status == "ok" and not fits:
        status, error = "error", f"all returned values together are more than {MAX_VALUES_BYTES >> 20} MiB in memory"
    elif status == "ok":
        try:
            value = parse_value(blobs[0])
        except (ValueError, RecursionError) as failure:
            status, error = "error", f"the returned value is not JSON data: {str(failure)[:200]}"
    return StepOutcome(
        status,
        value=value,
        stdout=blobs[1],
        stderr=blobs[2],
        error=_one_line(error) or _explain(status, limits),
        cpu_ms=header["cpu_ms"],
        wall_ms=header["wall_ms"],
    )


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


def _size_as_objects(text: bytes) -> int:
    """Bytes that the parsed value takes at most; numbers and ASCII text cost little, many small dicts much."""
    width = 1 if text.isascii() and b"\\u" not in text else _WIDEST_CHARACTER
    return width * len(text) + sum(size * text.count(mark) for mark, size in _OBJECT_BYTES.items())


def parse_value(text: bytes) -> Any:
    """JSON text of an answer as data: NaN and infinities pass, half of a surrogate pair does not.

    Raises:
        ValueError: not JSON, an integer of more than 4300 digits, or text that UTF-8 cannot hold.
        RecursionError: nested too deeply.
    """
    collecting = gc.isenabled()
    gc.disable()  # data has no cycles, and looking for them makes a large value take ten times as long
    try:
        value = json.loads(text.decode())
    finally:
        if collecting:
            gc.enable()
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

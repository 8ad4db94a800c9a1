"""Runs one job: the supervisor of one answer.

first frame: Setup + files    --> {"ready": true}, or {"refused": status, "error": text}
one frame per step            --> one frame per step, in order, until one ends the job
                              --> {"done": true, ...} with what the whole tree used
"""

import os
import signal
import time
from typing import Any

from . import kernel
from .calls import Caller
from .context import Context
from .programs import run_program
from .reaper import Reaper
from .setup import Setup
from .streams import HangUp
from .watch import Watch
from .wire import pack, read_frame, write_all

_ENDS_JOB = frozenset(
    {"exited", "signal", "timeout", "memory", "output_limit", "process_limit", "disk_limit", "starved"}
)
_FLUSH_BYTES, _FLUSH_SECONDS = 1 << 16, 0.05


def run_job(
    setup: Setup,
    files: list[bytes],
    *,
    source: int,
    sink: int,
    proc: int | None,
    is_init: bool,
    seccomp_filter: bytes | None,
    notes: tuple[str, ...] = (),
) -> None:
    """Run the steps that arrive on `source`, write what became of them to `sink`.

    Args:
        proc: descriptor of a /proc with all of the answer's processes.
        is_init: this process is number 1 of a PID namespace of its own.
        notes: what a reader of the verdict should know about this jail.
    """
    if setup.defences.hidden_supervisor:
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)  # no process of the same user may look into this one
    # Process 1 of a namespace gets only the signals it handles; Python handles this one unless told otherwise.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if not is_init and setup.defences.private_processes:
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    refusal = _write_files(setup, files)
    if refusal:
        write_all(sink, pack({"refused": refusal[0], "error": refusal[1]}) + _summary(0.0, 0.0, 0, notes))
        return
    write_all(sink, pack({"ready": True}))
    started = time.monotonic()
    watch = Watch(setup.limits, proc if setup.defences.watchdog else None, whole_namespace=is_init)
    context = Context(setup, watch, Reaper(is_init), seccomp_filter, source, own_group=is_init)
    try:
        _run_steps(context, source, sink)
        context.reaper.kill_all()
    except HangUp:
        context.reaper.kill_all()
        return
    except TimeoutError:
        write_all(sink, pack({"starved": True}))  # not even a killed process gets a core
    wall_ms = 1000 * (time.monotonic() - started)
    write_all(sink, _summary(1000 * watch.final_cpu(), wall_ms, watch.peak(), notes))


def _summary(cpu_ms: float, wall_ms: float, peak: int, notes: tuple[str, ...]) -> bytes:
    record = {"cpu_ms": cpu_ms, "wall_ms": wall_ms, "peak_memory_bytes": peak, "notes": list(notes)}
    return pack({"done": True, **record})


def _run_steps(context: Context, source: int, sink: int) -> None:
    caller = Caller(context)
    waiting: list[bytes] = []
    flushed = time.monotonic()
    for number in range(context.setup.steps):
        step, blobs = read_frame(source)
        header, data = _run_step(context, caller, step, blobs)
        waiting.append(pack({"step": number, **header}, data))
        over = header["status"] in _ENDS_JOB
        if over or sum(map(len, waiting)) > _FLUSH_BYTES or time.monotonic() - flushed > _FLUSH_SECONDS:
            write_all(sink, b"".join(waiting))
            waiting.clear()
            flushed = time.monotonic()
        if over:
            return
    write_all(sink, b"".join(waiting))


def _run_step(
    context: Context, caller: Caller, step: dict[str, Any], blobs: list[bytes]
) -> tuple[dict[str, Any], list[bytes]]:
    if step.pop("kind") == "call":
        return caller.call(blobs[0])
    caller.stop()  # a program's end ends every process of the answer
    return run_program(context, step, blobs[0])


def _write_files(setup: Setup, files: list[bytes]) -> tuple[str, str] | None:
    """Put the answer's files into the working directory; status and reason where they do not fit."""
    for name, data in zip(setup.files, files, strict=True):
        path = os.path.join(setup.work, name)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(data)
            if data.startswith(b"#!"):
                os.chmod(path, 0o755)
        except OSError as error:
            full = os.statvfs(setup.work).f_bavail == 0
            return "disk_limit" if full else "error", f"cannot write the answer's file {name!r}: {error.strerror}"
    return None

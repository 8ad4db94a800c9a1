"""Runs one program of an answer: its own process, real pipes, collected files."""

import os
import select
import stat
import time
from typing import Any

from .confine import close_all_but, confine
from .context import Context
from .streams import Collector, Feeder, Pump

_NOT_FOUND, _NOT_EXECUTABLE = 127, 126  # what shells answer


def run_program(context: Context, step: dict[str, Any], stdin: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """Header and blobs (stdout, stderr, files) of the outcome.

    Args:
        step: {"argv": [...], "collect": [...], "cwd": "."}
    """
    started, cpu_before = time.monotonic(), context.reaped_cpu()
    cap = context.setup.limits.output_bytes
    pid, (stdin_fd, stdout_fd, stderr_fd) = _start(context, step)
    pidfd = os.pidfd_open(pid)
    out, err, feed = Collector(stdout_fd, cap), Collector(stderr_fd, cap), Feeder(stdin_fd, stdin, close_after=True)
    try:
        pump = Pump((out, err), pidfd, context.watch, context.channel)
        pump.feed(feed)
        broken = pump.run(lambda: pump.ended)
        context.reaper.kill_all()  # processes that outlive their step; now nobody holds the pipes
        _drain(out, err)
        broken = broken or ("output_limit" if out.full or err.full else None)
        code = context.reaper.exit_code(pid)
        assert code is not None
        status = broken or context.blame(code) or ("ok" if code == 0 else "error" if code > 0 else "signal")
        files = _collect(context, step) if status in {"ok", "error"} else {}
    finally:
        feed.finish()
        for fd in (stdout_fd, stderr_fd, pidfd):
            os.close(fd)
    header = {
        "status": status,
        "exit_code": code,
        "error": "" if status != "error" else f"exit code {code}",
        "files": list(files),
        "cpu_ms": 1000 * (context.reaped_cpu() - cpu_before),
        "wall_ms": 1000 * (time.monotonic() - started),
    }
    return header, [out.take(), err.take(), *files.values()]


def _start(context: Context, step: dict[str, Any]) -> tuple[int, tuple[int, int, int]]:
    """Fork the program; return its pid and our ends of its standard descriptors."""
    theirs_in, ours_in = os.pipe()
    ours_out, theirs_out = os.pipe()
    ours_err, theirs_err = os.pipe()
    pid = os.fork()
    if pid == 0:
        _become(context, step, (theirs_in, theirs_out, theirs_err))
    for fd in (theirs_in, theirs_out, theirs_err):
        os.close(fd)
    return pid, (ours_in, ours_out, ours_err)


def _become(context: Context, step: dict[str, Any], standard: tuple[int, int, int]) -> None:
    """In the child: turn into the program. Never returns."""
    code = _NOT_EXECUTABLE
    try:
        os.setsid()
        for number, fd in enumerate(standard):
            os.dup2(fd, number)
        close_all_but()
        os.chdir(os.path.join(context.setup.work, step["cwd"]))
        confine(context.setup, context.seccomp_filter)
        os.execvpe(step["argv"][0], step["argv"], context.setup.environment)
    except (OSError, ValueError) as error:  # an unknown program, or one with a NUL in its name: the answer's fault
        if isinstance(error, FileNotFoundError):
            code = _NOT_FOUND
        os.write(2, f"{step['argv'][0]!r}: {error}\n".encode(errors="backslashreplace"))
    finally:
        os._exit(code)


def _drain(*streams: Collector) -> None:
    """Take what is left in pipes whose writers are all gone."""
    for stream in streams:
        while stream.open and not stream.full and select.select([stream.fd], [], [], 0)[0]:
            stream.serve()


def _collect(context: Context, step: dict[str, Any]) -> dict[str, bytes]:
    """The asked-for files that exist, output_bytes together at most; a larger one is left out."""
    found: dict[str, bytes] = {}
    left = context.setup.limits.output_bytes
    base = os.path.normpath(step["cwd"])
    for name in step["collect"]:
        data = _read_regular(context.setup.work, os.path.normpath(os.path.join(base, name)), left)
        if data is not None:
            found[name] = data
            left -= len(data)
    return found


def _read_regular(root: str, path: str, cap: int) -> bytes | None:
    """A regular file below `root`, no link followed on the way; None where there is none or it exceeds the cap."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    folder = os.open(root, flags | os.O_DIRECTORY)
    try:
        *parents, name = path.split("/")
        for part in parents:
            inner = os.open(part, flags | os.O_DIRECTORY, dir_fd=folder)
            os.close(folder)
            folder = inner
        # A FIFO without a writer would block for ever.
        fd = os.open(name, flags | os.O_NONBLOCK, dir_fd=folder)
        with open(fd, "rb") as file:
            info = os.fstat(fd)
            if not stat.S_ISREG(info.st_mode) or info.st_size > cap:
                return None
            return file.read(cap)
    except OSError:
        return None  # missing, a link, a device, unreadable: not left behind as asked
    finally:
        os.close(folder)

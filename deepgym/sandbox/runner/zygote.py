"""The small parent inside a bubblewrap jail: forks one supervisor per answer, each in namespaces of its own.

    host --control socket (fd 0): a job's socket in a message--> zygote --fork_into--> supervisor (process 1)
         <--one byte when the supervisor and all it started are gone--

Single-threaded, holds no job, no answer and no expected output; it never reads what an answer wrote.
"""

import gc
import importlib
import json
import os
import signal
import socket
import struct

from . import kernel, seccomp
from .box import enter_box
from .job import run_job
from .setup import Setup
from .wire import read_frame

# What answers often import; loaded once, shared by every fork.
_PRELOADED = (
    *("array", "bisect", "collections", "copy", "dataclasses", "datetime", "decimal", "enum", "fractions", "functools"),
    *("heapq", "io", "itertools", "math", "operator", "random", "re", "string", "threading", "typing"),
)
GONE, HELLO = b".", b"!"
OPTIONS = struct.Struct("!?")  # of one job: whether the answer gets a PID namespace of its own


def main() -> None:
    """Serve until the host closes the control socket."""
    control = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # a service that ignores it leaves that to what it starts
    os.umask(0o022)
    _forbid_user_namespaces()
    for name in _PRELOADED:
        importlib.import_module(name)
    json.dumps([1.5, {"a": None}])
    seccomp_filter = seccomp.build()
    gc.collect()
    gc.freeze()
    control.send(HELLO)
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, OPTIONS.size, 1)
        if not message:
            return
        (job,), (private_processes,) = descriptors, OPTIONS.unpack(message)
        flags = kernel.CLONE_NEWNS | kernel.CLONE_NEWIPC | (kernel.CLONE_NEWPID if private_processes else 0)
        pid = kernel.fork_into(flags)
        if pid == 0:
            control.close()
            _supervise(job, seccomp_filter, private_processes)
        os.close(job)
        os.waitpid(pid, 0)
        control.send(GONE)


def _supervise(job: int, seccomp_filter: bytes, is_init: bool) -> None:
    """In the child: run one job. Never returns."""
    try:
        header, files = read_frame(job)
        setup = Setup.of(header)
        proc = enter_box(setup)
        chosen = seccomp_filter if setup.defences.seccomp else None
        run_job(setup, files, source=job, sink=job, proc=proc, is_init=is_init, seccomp_filter=chosen)
    finally:
        os._exit(0)


def _forbid_user_namespaces() -> None:
    """Nobody in this jail makes another user namespace, whatever the filter lets through."""
    with open("/proc/sys/user/max_user_namespaces", "w", encoding="ascii") as file:
        file.write("0")

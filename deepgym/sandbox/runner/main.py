"""The runner of a jail that is used once, such as a container: one job from stdin to stdout, then it ends.

With the argument `socket`, descriptor 0 is a socket for both ways. The job ends when the far end of descriptor 0 hangs
up. As process 1 of a container it owns every process in it. The container brings network, disk and memory limits.
"""

import gc
import os
import signal
import sys

from . import seccomp
from .job import run_job
from .setup import Setup
from .wire import read_frame


def main() -> None:
    """Read one job from descriptor 0, write its outcomes to descriptor 1."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it would be by whatever a service starts
    os.umask(0o022)
    source = os.dup(0)
    sink = source if sys.argv[1:] == ["socket"] else os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    header, files = read_frame(source)
    setup = Setup.of(header)
    os.makedirs(setup.work, exist_ok=True)  # a container starts with an empty disk
    gc.freeze()
    proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
    run_job(
        setup,
        files,
        source=source,
        sink=sink,
        proc=proc,
        is_init=os.getpid() == 1,
        seccomp_filter=seccomp.build() if setup.defences.seccomp else None,
    )

"""The process that judges answers of a model: a fork of it per answer, killed when it overruns.

Run as a script by `workers.py` with two arguments: the file descriptor of a socket, and a Python file that defines

    warm_up() -> None              imports what judging needs and uses it once; ImportError says what to install
    judge(request: dict) -> str    the reply to a request

Both import the standard library and the packages that judge, nothing of this project. Requests and replies are JSON:
{"cpu_s": int, "wall_s": float, "memory_bytes": int, ...what `judge` reads}  ->  its reply, OVERRUN, BROKE or LATE.

The libraries are loaded and warmed up once, then every answer gets a fresh fork (a few milliseconds) with limits on
CPU time and memory, without environment variables and without the right to write files.
"""

import ctypes
import gc
import importlib.util
import json
import os
import resource
import select
import signal
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

OVERRUN = "overrun"  # the answer used up its CPU time or memory, or crashed its judge
BROKE = "broke"  # the judge raised an exception: it met something that it does not understand
LATE = "late"  # the wall clock ran out first: the machine was too busy to judge
READY = "ready"

Judge = Callable[[dict[str, Any]], str]

_PR_SET_PDEATHSIG = 1
_MAX_REPLY = 4096


def judge_in_fork(request: dict[str, Any], judge: Judge) -> str:
    """The judge's reply, or OVERRUN, BROKE or LATE."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        _judge_and_exit(request, judge, write_end)
    os.close(write_end)
    try:
        in_time, _, _ = select.select([read_end], [], [], request["wall_s"])
        said = os.read(read_end, _MAX_REPLY) if in_time else b""
    finally:
        os.close(read_end)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if not in_time:
        return LATE
    return said.decode() or OVERRUN


def _judge_and_exit(request: dict[str, Any], judge: Judge, write_end: int) -> None:
    """In the fork; never returns."""
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        resource.setrlimit(resource.RLIMIT_CPU, (request["cpu_s"], request["cpu_s"] + 1))
        resource.setrlimit(resource.RLIMIT_AS, (request["memory_bytes"],) * 2)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.write(write_end, judge(request).encode()[:_MAX_REPLY])
    except (MemoryError, RecursionError):
        pass  # no byte: OVERRUN
    except Exception:  # the libraries that compare raise anything at an answer that they do not understand
        os.write(write_end, BROKE.encode())
    finally:
        os._exit(0)


def serve(connection: Connection, judge: Judge) -> None:
    """Answer requests until the other side is gone."""
    parent = os.getppid()
    while True:
        # EOF says that the parent is gone, unless some other child of it inherited the socket: hence the second look.
        while not connection.poll(1.0):
            if os.getppid() != parent:
                return
        try:
            request = json.loads(connection.recv_bytes())
        except EOFError:
            return
        connection.send_bytes(json.dumps(judge_in_fork(request, judge)).encode())


def main() -> None:
    connection = Connection(int(sys.argv[1]))
    spec = importlib.util.spec_from_file_location("judge", sys.argv[2])
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    os.environ.clear()
    try:
        spec.loader.exec_module(module)
        module.warm_up()
        gc.freeze()  # or the collector would touch, and so copy, every page in every fork
    except ImportError as error:
        connection.send_bytes(json.dumps(str(error)).encode())
        return
    connection.send_bytes(json.dumps(READY).encode())
    serve(connection, module.judge)


if __name__ == "__main__":
    main()

"""The process that compares answers with math-verify: a fork of it per answer, killed when it overruns.

Run as a script by `pool.py`, with a socket on the file descriptor given as its argument. Imports the standard library
and math-verify only. Requests and replies are JSON messages:

    {"answer": str, "gold": str, "cpu_s": int, "wall_s": float, "memory_bytes": int}  ->  one of `REPLIES`, as a string

The libraries are loaded and warmed up once, then every answer gets a fresh fork (a few milliseconds) with limits on
CPU time and memory, without environment variables and without the right to write files. Only LaTeX is parsed: the
plain-expression parser of math-verify evaluates its input as Python.
"""

import ctypes
import gc
import json
import os
import resource
import select
import signal
import sys
from multiprocessing.connection import Connection
from typing import Any

RIGHT, WRONG = "right", "wrong"
OVERRUN = "overrun"  # the answer used up its CPU time or memory, or crashed the comparison
LATE = "late"  # the wall clock ran out first: the machine was too busy to judge
REPLIES = (RIGHT, WRONG, OVERRUN, LATE)
READY = "ready"

# Typical pairs. Comparing them loads sympy and fills the parser's tables, once for all forks.
WARM_UP = (
    (r"\frac{1}{2}x^2", r"\frac{x^2}{2}"),
    ("x^2+2x+1", "(x+1)^2"),
    (r"\frac{1}{\sqrt{2}}", r"\frac{\sqrt{2}}{2}"),
    (r"\{1,2\}", "2,1"),
    ("(1,2)", "[1,2)"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}1\\3\end{pmatrix}"),
    (r"x\le 3", "3"),
)

_PR_SET_PDEATHSIG = 1


def equivalent(answer: str, gold: str) -> bool:
    """Whether two LaTeX answers denote the same thing, after math-verify. Unparsable: False."""
    from math_verify import LatexExtractionConfig, parse, verify

    latex = [LatexExtractionConfig(boxed_match_priority=0)]
    parsed = [parse(rf"\boxed{{{text}}}", latex, parsing_timeout=None) for text in (gold, answer)]  # type: ignore[arg-type]
    return all(parsed) and verify(parsed[0], parsed[1], timeout_seconds=None)


def compare(request: dict[str, Any]) -> str:
    """One of REPLIES, from a fork."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        _compare_and_exit(request, write_end)
    os.close(write_end)
    try:
        in_time, _, _ = select.select([read_end], [], [], request["wall_s"])
        said = os.read(read_end, 1) if in_time else b""
    finally:
        os.close(read_end)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if not in_time:
        return LATE
    return {b"1": RIGHT, b"0": WRONG}.get(said, OVERRUN)


def _compare_and_exit(request: dict[str, Any], write_end: int) -> None:
    """In the fork; never returns."""
    try:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        resource.setrlimit(resource.RLIMIT_CPU, (request["cpu_s"], request["cpu_s"] + 1))
        resource.setrlimit(resource.RLIMIT_AS, (request["memory_bytes"],) * 2)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        verdict = equivalent(request["answer"], request["gold"])
        os.write(write_end, b"1" if verdict else b"0")
    except (MemoryError, RecursionError):
        pass  # no byte: OVERRUN
    except Exception:
        os.write(write_end, b"0")  # math-verify met something it does not understand
    finally:
        os._exit(0)


def serve(connection: Connection) -> None:
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
        connection.send_bytes(json.dumps(compare(request)).encode())


def main() -> None:
    connection = Connection(int(sys.argv[1]))
    os.environ.clear()
    try:
        for answer, gold in WARM_UP:
            equivalent(answer, gold)
        gc.freeze()  # or the collector would touch, and so copy, every page in every fork
    except ImportError as error:
        connection.send_bytes(json.dumps(f"{error}; install math-verify (pip install 'openrlhf[math]')").encode())
        return
    connection.send_bytes(json.dumps(READY).encode())
    serve(connection)


if __name__ == "__main__":
    main()

"""The command line of one slot's jail.

What is in it: the system's programs and libraries, read-only; a handful of devices; nothing else of the host. The
zygote inside keeps two capabilities over the jail's own user namespace (to mount each answer's disk, and to close the
door to further user namespaces); the answers it forks have none.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from deepgym.exceptions import SandboxUnavailableError
from deepgym.sandbox.protocol import ENVIRONMENT
from deepgym.sandbox.runner.box import BOX, SHM, TMP, WORK
from deepgym.sandbox.runner.defences import Defences

UID = 1000  # of the zygote and the answers, as seen inside
RUNNER = "/run/runner.zip"
PASSWD = f"solver:x:{UID}:{UID}::{WORK}:/bin/sh\n".encode()
GROUP = f"solver:x:{UID}:\n".encode()

_PACKAGE = Path(__file__).resolve().parents[2]  # deepgym itself: references, generators and verifiers of all tasks
_SYSTEM_LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
# /dev/zero is left out on purpose: a shared mapping of it is memory that no process's size shows.
_DEVICES = ("/dev/null", "/dev/full", "/dev/random", "/dev/urandom")
_ETC = ("/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime")
PROBE_SECONDS = 30.0
_CAPABILITIES = ("CAP_SYS_ADMIN", "CAP_SYS_RESOURCE")


@dataclass(frozen=True, slots=True)
class Inputs:
    """Descriptors that bubblewrap turns into files of the jail."""

    runner: int
    passwd: int
    group: int


def command(
    program: str, python: str, inputs: Inputs, hidden: Sequence[Path] = (), defences: Defences | None = None
) -> list[str]:
    """The arguments that start one slot's jail with the zygote in it.

    Args:
        program: path of bwrap.
        python: the interpreter of the zygote and the answers.
        hidden: folders with expected outputs, beside this package; where the jail shows them they are empty.
    """
    defences = defences or Defences()
    return [
        *_start(program),
        *("--unshare-user", "--unshare-ipc", "--unshare-pid", "--unshare-uts", "--unshare-cgroup-try"),
        *(("--unshare-net",) if defences.no_network else ()),
        *("--uid", str(UID), "--gid", str(UID), "--hostname", "jail"),
        *("--die-with-parent", "--new-session", "--cap-drop", "ALL"),
        *(part for name in _CAPABILITIES for part in ("--cap-add", name)),
        *_environment(defences),
        *_system_files(python),
        *(() if defences.hidden_host else _whole_host()),
        *("--proc", "/proc"),
        *_devices(),
        *(part for path in (WORK, TMP, BOX) for part in ("--dir", path)),
        *("--ro-bind-data", str(inputs.runner), RUNNER),
        *("--ro-bind-data", str(inputs.passwd), "/etc/passwd", "--ro-bind-data", str(inputs.group), "/etc/group"),
        *(_masks(python, hidden) if defences.hidden_host else ()),
        *("--remount-ro", "/"),  # so that nothing outlasts an answer: all it can write to is its own box
        *("--chdir", "/", python, "-sPB", RUNNER, "zygote"),
    ]


def probe(program: str, uid: int | None) -> None:
    """Make a small jail once, as user `uid` (None: as this process's own).

    Raises:
        SandboxUnavailableError: the machine does not let bubblewrap make one; says what it printed.
    """
    walls = ("--unshare-user", "--unshare-pid", "--unshare-net", "--ro-bind", "/", "/", "--proc", "/proc")
    groups: list[int] | None = None if uid is None else []
    try:
        done = subprocess.run(
            [*_start(program), *walls, "--die-with-parent", "/bin/true"],
            capture_output=True,
            timeout=PROBE_SECONDS,
            user=uid,
            group=uid,
            extra_groups=groups,
            cwd="/",
        )
    except subprocess.TimeoutExpired:
        return  # a busy host has refused nothing
    except OSError as error:
        raise SandboxUnavailableError(f"cannot start {program}: {error}") from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        reason = said[-1] if said else f"exit code {done.returncode}"
        raise SandboxUnavailableError(f"this machine does not let bubblewrap make a jail: {reason}")


def default_python() -> str:
    """The interpreter that answers run on: the system's, else the one that runs this."""
    for path in ("/usr/bin/python3", "/usr/local/bin/python3"):
        if os.path.exists(path):
            return path
    return os.path.realpath(sys.executable)


def _start(program: str) -> tuple[str, ...]:
    """How to run bwrap, which waits for SIGCHLD: where this process ignores it, a program it starts would do so too."""
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
        return ("/usr/bin/env", "--default-signal=CHLD", program)
    return (program,)


def _environment(defences: Defences) -> Iterator[str]:
    if defences.empty_environment:
        yield "--clearenv"
    for name, value in {**ENVIRONMENT, "HOME": WORK, "TMPDIR": TMP}.items():
        yield from ("--setenv", name, value)


def _system_files(python: str) -> Iterator[str]:
    yield from ("--ro-bind", "/usr", "/usr")
    for path in _SYSTEM_LINKS:
        if os.path.islink(path):
            yield from ("--symlink", os.readlink(path), path)
        elif os.path.isdir(path):
            yield from ("--ro-bind", path, path)
    for path in _ETC:
        yield from ("--ro-bind-try", path, path)
    prefix = _prefix(python)
    if not prefix.is_relative_to("/usr"):
        yield from ("--ro-bind", str(prefix), str(prefix))


def _whole_host() -> Iterator[str]:
    """The host's other top-level folders, for the test that shows what hiding them is good for."""
    taken = {"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "etc", "proc", "dev", "sys", "work", "tmp", "run"}
    for name in sorted(set(os.listdir("/")) - taken):
        yield from ("--ro-bind-try", f"/{name}", f"/{name}")


def _prefix(python: str) -> Path:
    """The installation of an interpreter: the folder above its bin."""
    real = Path(python).resolve()
    if not real.exists():
        raise SandboxUnavailableError(f"no Python at {python}, which the answers should run on; name another one")
    return real.parents[1]


def _devices() -> Iterator[str]:
    yield from ("--dir", SHM)
    for path in _DEVICES:
        yield from ("--dev-bind", path, path)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        yield from ("--symlink", f"/proc/self/fd/{number}", f"/dev/{name}")
    yield from ("--symlink", "/proc/self/fd", "/dev/fd")


def _masks(python: str, hidden: Sequence[Path]) -> Iterator[str]:
    """Empty, read-only folders over those that hold expected outputs, where they lie in a folder that is shown."""
    shown = (Path("/usr"), _prefix(python))
    for folder in (_PACKAGE, *hidden):
        if any(folder.is_relative_to(root) for root in shown):
            yield from ("--tmpfs", str(folder), "--remount-ro", str(folder))

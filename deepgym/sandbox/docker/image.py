"""The jail's image: a root file system of this machine's own Python, shell and text tools. Nothing is pulled.

    rootfs() --tar--> engine's image import --> image id, found again by the label `deepgym.rootfs=<fingerprint>`

The fingerprint covers path, size and time of the programs and the standard library, and the runner's bytes, so an
upgraded Python or runner makes a new image.
"""

import functools
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

import docker
from docker.errors import DockerException
from docker.models.images import Image

from deepgym.exceptions import SandboxUnavailableError
from deepgym.sandbox.bundle import runner_zip

LABEL = "deepgym.rootfs"
REPOSITORY = "deepgym-jail"
RUNNER = "usr/lib/deepgym/runner.zip"
RUNNER_COMMAND = ["/usr/bin/python3", "-I", "-S", "-B", f"/{RUNNER}", "job"]

# What `deepgym.sandbox.base` promises on PATH, beside python3.
TOOLS = (
    *("bash", "sh", "awk", "basename", "cat", "chmod", "cmp", "comm", "cp", "csplit", "cut", "date", "diff", "dirname"),
    *("echo", "env", "expand", "expr", "false", "find", "fmt", "fold", "grep", "gunzip", "gzip", "head", "id", "join"),
    *("kill", "ln", "ls", "md5sum", "mkdir", "mktemp", "mv", "nl", "nproc", "od", "paste", "printf", "pwd", "readlink"),
    *("realpath", "rev", "rm", "rmdir", "sed", "seq", "sha256sum", "shuf", "sleep", "sort", "split", "stat", "tac"),
    *("tail", "tar", "tee", "test", "timeout", "touch", "tr", "true", "truncate", "tsort", "uname", "uniq", "wc"),
    *("which", "xargs", "yes"),
)
REQUIRED_TOOLS = ("bash", "sh", "cat", "sort")

# Parts of the standard library that no answer needs, most of its size.
_SKIPPED = frozenset(
    {"test", "tests", "tkinter", "idlelib", "ensurepip", "lib2to3", "turtledemo", "pydoc_data", "site-packages"}
    | {"dist-packages"}
)
_EMPTY_FOLDERS = ("dev", "etc", "proc", "sys", "tmp", "run", "var/tmp")
_LINKS = {"bin": "usr/bin", "sbin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64"}


def rootfs(python: str | None = None) -> Mapping[str, Path]:
    """Path in the image (no leading slash) -> file on this machine, shared libraries apart.

    Args:
        python: the interpreter to take; by default Debian's /usr/bin/python3, else the one running now.

    Raises:
        SandboxUnavailableError: a needed program is not on this machine.
    """
    interpreter = Path(python or _default_python()).resolve()
    stdlib = _stdlib(interpreter)
    programs = {f"usr/bin/{tool}": Path(path).resolve() for tool in TOOLS if (path := shutil.which(tool))}
    missing = [tool for tool in REQUIRED_TOOLS if f"usr/bin/{tool}" not in programs]
    if missing:
        raise SandboxUnavailableError(f"the jail's image needs {', '.join(missing)} on this machine's PATH")
    files = {_merged(path): path for path in _library_files(stdlib)}
    files |= programs
    # sys.prefix is found from the binary's place, so it keeps its own; PATH gets links (see `tar_bytes`).
    files[_merged(interpreter)] = interpreter
    return dict(sorted(files.items()))


def fingerprint(files: Mapping[str, Path]) -> str:
    """16 hex digits that change when a file does."""
    digest = hashlib.sha256(repr((TOOLS, _EMPTY_FOLDERS, _LINKS)).encode())
    digest.update(runner_zip())
    for name, path in files.items():
        status = path.stat()
        digest.update(f"{name}\0{status.st_size}\0{status.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def tar_bytes(files: Mapping[str, Path]) -> bytes:
    """The root file system as a tar, shared libraries and the runner included.

    Everything is owned by root, and nothing is writable by others but /tmp and /var/tmp.
    """
    linked = [path for name, path in files.items() if "/bin/" in name or path.suffix == ".so"]
    libraries = {_merged(library): library for library in _shared_libraries(linked)}
    python = next(name for name, path in files.items() if path.name.startswith("python3") and "/bin/" in name)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for folder in _EMPTY_FOLDERS:
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777 if folder in ("tmp", "var/tmp") else 0o755
            tar.addfile(entry)
        links = dict(_LINKS) | {f"usr/bin/{name}": f"/{python}" for name in ("python3", "python")}
        for name, target in links.items():
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, target
            tar.addfile(entry)
        for name, path in sorted((libraries | dict(files)).items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = path.stat().st_size, 0o755 if os.access(path, os.X_OK) else 0o644
            with path.open("rb") as content:
                tar.addfile(entry, content)
        entry = tarfile.TarInfo(RUNNER)
        entry.size, entry.mode = len(runner_zip()), 0o644
        tar.addfile(entry, io.BytesIO(runner_zip()))
    return buffer.getvalue()


def ensure_image(client: docker.DockerClient, python: str | None = None) -> str:
    """Id of the jail's image in this engine; builds and imports it where it is missing (some seconds).

    Raises:
        SandboxUnavailableError: the engine refused the import, or the machine lacks a needed program.
    """
    files, key = _sources(python)
    if found := _listed(client, key):
        return found[0].id
    try:
        client.api.import_image_from_data(
            tar_bytes(files), repository=REPOSITORY, tag=key, changes=[f"LABEL {LABEL}={key}", "ENV PATH=/usr/bin:/bin"]
        )
    except (DockerException, OSError) as error:
        raise SandboxUnavailableError(f"the container engine refused the jail's image: {error}") from error
    found = _listed(client, key)
    if not found:
        raise SandboxUnavailableError(f"the container engine took the jail's image but lists none with {LABEL}={key}")
    return found[0].id


def _listed(client: docker.DockerClient, key: str) -> list[Image]:
    try:
        return cast(list[Image], client.images.list(filters={"label": f"{LABEL}={key}"}))
    except (DockerException, OSError) as error:
        raise SandboxUnavailableError(f"the container engine does not list its images: {error}") from error


@functools.cache
def _sources(python: str | None) -> tuple[Mapping[str, Path], str]:
    files = rootfs(python)
    return files, fingerprint(files)


def _default_python() -> str:
    return "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable


def _stdlib(interpreter: Path) -> Path:
    command = [str(interpreter), "-I", "-S", "-c", "import sysconfig; print(sysconfig.get_path('stdlib'))"]
    return Path(subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.strip())


def _library_files(stdlib: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(stdlib):
        folders[:] = [name for name in folders if name not in _SKIPPED and not name.startswith("config-")]
        yield from (path for name in names if (path := Path(folder, name)).is_file())


def _shared_libraries(programs: list[Path]) -> set[Path]:
    """Every shared library that these files link to, and the loader that finds them.

    The loader lists them without running the program. Scripts and static programs have none: it refuses those.
    """
    loader = _loader()
    found = {loader}
    for program in programs:
        command = [str(loader), "--list", str(program)]
        listing = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30).stdout
        found |= {Path(word) for word in listing.split() if word.startswith("/") and Path(word).is_file()}
    return found


def _loader() -> Path:
    for pattern in ("lib64/ld-linux-*.so.*", "lib/ld-linux-*.so.*", "lib/ld-musl-*.so.*"):
        for path in sorted(Path("/").glob(pattern)):
            return path
    raise SandboxUnavailableError("no dynamic loader (ld-linux, ld-musl) under /lib64 or /lib: give an image by name")


def _merged(path: Path) -> str:
    """Where a host file lies in the image, in which /bin, /lib and /lib64 are links into /usr."""
    name = str(path).lstrip("/")
    return f"usr/{name}" if name.split("/")[0] in ("bin", "lib", "lib64") else name

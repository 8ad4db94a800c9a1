"""One container, from its start to its removal. It serves one job and is never used again."""

import contextlib
import os
import socket
import struct
import time
from typing import Any, NamedTuple, cast

import docker
from docker.errors import DockerException, NotFound
from docker.types import Ulimit

from deepgym.exceptions import SandboxError
from deepgym.sandbox.base import MIB, Limits
from deepgym.sandbox.docker.image import RUNNER_COMMAND
from deepgym.sandbox.runner.defences import Defences

OWNER_LABEL = "deepgym.owner"
USER = "65534:65534"
WORK, TMP = "/tmp/work", "/tmp"  # on one memory disk, so that disk_bytes holds for both together
_STREAM_HEAD = struct.Struct(">BxxxI")  # of the engine's attach stream: 1 stdout or 2 stderr, then the length
_STDERR = 2
_KEPT_STDERR = 4096
# What the runner needs beside the answer's share.
_RUNNER_PROCESSES, _RUNNER_FILES, _RUNNER_MEMORY = 1, 64, 32 * MIB
_MANY_PROCESSES, _UNBOUNDED_DISK = 4096, 1 << 30
_ABOUT_TO_START_SECONDS = 120.0  # between a container's creation and its start, on a busy machine too
# Seconds between tries: the engine may be removing it already, or be busy starting it.
_REMOVAL_PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0, 4.0, 8.0)


class Shape(NamedTuple):
    """The limits that a container has from its creation; all others are the runner's."""

    memory_bytes: int
    processes: int
    open_files: int
    disk_bytes: int

    @classmethod
    def of(cls, limits: Limits) -> "Shape":
        return cls(limits.memory_bytes, limits.processes, limits.open_files, limits.disk_bytes)


class Container:
    """A started container with the runner waiting inside, and the byte stream to it. Methods block.

    The engine removes the container by itself once the runner ends, and the runner ends when the stream closes: a
    container does not outlive the process that made it, however that ends.

    Args:
        owner: value of the label by which all containers of one sandbox are found.

    Raises:
        SandboxError: from any method, when the engine failed.
    """

    def __init__(self, client: docker.DockerClient, image: str, shape: Shape, defences: Defences, owner: str) -> None:
        self._api = client.api
        self._hung_up = self._broken = False
        self.stderr = b""  # the runner's own last words, for error messages
        try:
            created = self._api.create_container(
                image,
                RUNNER_COMMAND,
                user=USER if defences.no_capabilities else "0:0",
                stdin_open=True,
                working_dir="/",
                environment=None if defences.empty_environment else dict(os.environ),
                labels={OWNER_LABEL: owner},
                host_config=self._api.create_host_config(**_host_config(shape, defences)),
            )
            self.id: str = created["Id"]
        except (DockerException, OSError) as error:
            raise SandboxError(f"the container engine could not make a container: {error}") from error
        try:
            self._stream = self._attach()
        except (DockerException, OSError) as error:
            remove(self._api, self.id)
            raise SandboxError(f"the container engine could not attach to a container: {error}") from error
        try:
            self._api.start(self.id)
        except (DockerException, OSError) as error:
            self.close()
            remove(self._api, self.id)
            raise SandboxError(f"the container engine could not start a container: {error}") from error

    def set_timeout(self, seconds: float) -> None:
        """How long a `send` or a `receive` may wait."""
        self._stream.settimeout(seconds)

    def send(self, data: bytes) -> None:
        """Write to the runner's stdin. Raises OSError when it is gone."""
        self._stream.sendall(data)

    def receive(self) -> bytes:
        """The next piece of the runner's stdout; empty at its end. Raises TimeoutError."""
        while head := self._exactly(_STREAM_HEAD.size):
            kind, size = _STREAM_HEAD.unpack(head)
            payload = self._exactly(size)
            if kind != _STDERR:
                return payload
            self.stderr = (self.stderr + payload)[-_KEPT_STDERR:]
        return b""

    def hang_up(self) -> None:
        """End the stream: what waits in `send` or `receive` returns, and the runner ends."""
        self._hung_up = True
        with contextlib.suppress(OSError):  # the other side may have closed it first
            self._stream.shutdown(socket.SHUT_RDWR)

    def lost(self) -> bool:
        """Whether the stream broke while the container went on: the engine or the network did that, no answer can.

        Raises:
            SandboxError: the engine does not say.
        """
        if not self._broken:
            return False
        try:
            return bool(self._api.inspect_container(self.id)["State"]["Running"])
        except NotFound:
            return False
        except (DockerException, OSError) as error:
            raise SandboxError(f"the engine does not say how container {self.id[:12]} is: {error}") from error

    def close(self) -> None:
        """Give the stream's descriptor back, once no thread uses it."""
        # The SDK's response and its reader refer to each other, and a socket's own close() leaves the descriptor open
        # while a reader of it lives: until the collector comes by.
        descriptor = self._stream.detach()
        if descriptor >= 0:
            os.close(descriptor)

    def remove(self) -> None:
        """Kill whatever runs inside."""
        self.hang_up()
        remove(self._api, self.id)

    def _attach(self) -> socket.socket:
        stream = self._api.attach_socket(self.id, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
        # The SDK wraps a plain socket in a reader that cannot write; a TLS socket comes as it is.
        return cast(socket.socket, stream._sock if isinstance(stream, socket.SocketIO) else stream)  # type: ignore[attr-defined]

    def _exactly(self, size: int) -> bytes:
        """`size` bytes, or nothing when the stream ends or breaks before that."""
        parts = []
        while size:
            try:
                part = self._stream.recv(min(size, 1 << 20))
            except TimeoutError:
                raise
            except OSError:
                self._broken = not self._hung_up
                return b""
            if not part:
                return b""
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


def _host_config(shape: Shape, defences: Defences) -> dict[str, object]:
    disk = shape.disk_bytes if defences.private_disk else _UNBOUNDED_DISK
    files = shape.open_files + _RUNNER_FILES
    # The files on its memory disk count as the container's memory.
    memory = shape.memory_bytes + disk + _RUNNER_MEMORY
    config: dict[str, object] = {
        "auto_remove": True,
        "network_mode": "none" if defences.no_network else "host",
        "ipc_mode": "private",
        "read_only": True,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges"],
        "mem_limit": memory,
        "memswap_limit": memory,
        "pids_limit": shape.processes + _RUNNER_PROCESSES,
        "tmpfs": {TMP: f"rw,size={disk},mode=1777,nosuid,nodev,exec"} | _CLOSED_FOLDERS,
        # NPROC counts a user's processes over all containers, so the cgroup's pids limit does that work.
        "ulimits": [
            Ulimit(name="nofile", soft=files, hard=files),
            Ulimit(name="nproc", soft=_MANY_PROCESSES, hard=_MANY_PROCESSES),
            Ulimit(name="core", soft=0, hard=0),
        ],
        "log_config": {"type": "none"},
        "oom_score_adj": 500,
    }
    return config | _without(defences)


def _without(defences: Defences) -> dict[str, object]:
    """What differs where a test has taken a wall away."""
    changes: dict[str, object] = {}
    if not defences.seccomp:
        changes["security_opt"] = ["no-new-privileges", "seccomp=unconfined"]
    if not defences.private_processes:
        changes["pid_mode"] = "host"
    if not defences.no_capabilities:
        changes |= {"cap_drop": [], "cap_add": ["ALL"]}
    if not defences.hidden_host:
        changes["binds"] = {"/": {"bind": "/host", "mode": "ro"}}
    return changes


# Places that an engine makes writable beside a read-only root.
_CLOSED_FOLDERS = dict.fromkeys(("/run", "/var/tmp", "/dev/shm"), "ro,size=4k,mode=0555")


def remove(api: docker.APIClient, container: str) -> None:
    """Kill and remove one container; it is gone from the engine when this returns.

    Raises:
        SandboxError: the engine does not remove it.
    """
    for pause in (*_REMOVAL_PAUSES, None):
        try:
            api.remove_container(container, force=True)
            return
        except NotFound:
            return
        except (DockerException, OSError) as error:
            # Engines differ in how they say that a removal is already under way or done.
            if all(entry["Id"] != container for entry in listed(api, all=True)):
                return
            if pause is None:
                raise SandboxError(f"container {container[:12]} could not be removed: {error}") from error
        time.sleep(pause)


def listed(api: docker.APIClient, **which: object) -> list[dict[str, Any]]:
    """The engine's containers. Raises SandboxError when it does not say."""
    try:
        return cast(list[dict[str, Any]], api.containers(**which))
    except (DockerException, OSError) as error:
        raise SandboxError(f"the container engine does not list its containers: {error}") from error


def sweep(api: docker.APIClient) -> int:
    """Remove the containers of processes that were killed before they could start them; how many there were.

    A started container ends with its process, and the engine removes it. One that was only created stays for ever.
    Young ones are left alone: another process may be about to start them.

    Raises:
        SandboxError: the engine failed.
    """
    found = listed(api, all=True, filters={"label": OWNER_LABEL, "status": "created"})
    old = [entry["Id"] for entry in found if time.time() - entry["Created"] > _ABOUT_TO_START_SECONDS]
    for container in old:
        remove(api, container)
    return len(old)

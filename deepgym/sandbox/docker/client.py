"""The engine's socket: any that speaks the Docker API, be it Docker, rootless Docker or podman."""

import os
from pathlib import Path

import docker
from docker.errors import DockerException

from deepgym.exceptions import SandboxUnavailableError

REQUEST_SECONDS = 60.0


def socket_paths() -> tuple[str, ...]:
    """Where engines put their sockets, most private first."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", f"/run/user/{os.getuid()}")
    return (
        f"{runtime}/docker.sock",
        f"{runtime}/podman/podman.sock",
        "/var/run/docker.sock",
        "/run/podman/podman.sock",
    )


def find_engine() -> str | None:
    """DOCKER_HOST where it is set, else the first socket that exists; None without either."""
    named = os.environ.get("DOCKER_HOST")
    if named:
        return named
    return next((f"unix://{path}" for path in socket_paths() if Path(path).is_socket()), None)


def connect(url: str | None = None) -> docker.DockerClient:
    """A client whose engine has answered. DOCKER_TLS_VERIFY and DOCKER_CERT_PATH apply to an engine over TCP.

    Raises:
        SandboxUnavailableError: no engine is there, or it does not answer; the message says what was tried.
    """
    url = url or find_engine()
    if url is None:
        raise SandboxUnavailableError(
            f"no container engine: DOCKER_HOST is not set and there is none of {', '.join(socket_paths())}. Start one "
            "(`systemctl --user start podman.socket`, or the Docker service), or use mode='local'"
        )
    try:
        client = docker.DockerClient.from_env(environment={**os.environ, "DOCKER_HOST": url}, timeout=REQUEST_SECONDS)
        client.ping()
    except (DockerException, OSError) as error:
        raise SandboxUnavailableError(f"the container engine at {url} does not answer: {error}") from error
    return client

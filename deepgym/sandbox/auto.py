"""Picks the sandbox: what the user named, or what this machine has.

    local    bubblewrap jails                  needs the package bubblewrap
    docker   a container for each answer       needs an engine with a Docker-compatible socket
    auto     local, else docker

Nothing here falls back to running answers without walls. That needs the sentence UNISOLATED_WORDS.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from deepgym.exceptions import SandboxUnavailableError
from deepgym.sandbox.base import Sandbox

UNISOLATED_WORDS = "I know that answers can read, change and send everything that I can"
_log = logging.getLogger("deepgym")


def make_sandbox(
    mode: Literal["auto", "local", "docker"],
    *,
    slots: int,
    allow_unisolated: str = "",
    hidden: Sequence[Path] = (),
) -> Sandbox:
    """A sandbox that is not started yet.

    Args:
        slots: jobs at once.
        allow_unisolated: UNISOLATED_WORDS, word for word, to run answers as plain processes where bubblewrap is
            missing; "" refuses. With mode "docker" it is refused.
        hidden: folders with expected outputs that answers must not see.

    Raises:
        SandboxUnavailableError: what the mode needs is not on this machine; says how to get it.
        ValueError: an unknown mode, or other words.
    """
    if allow_unisolated and allow_unisolated != UNISOLATED_WORDS:
        raise ValueError(f"allow_unisolated is {allow_unisolated!r}; to mean it, say {UNISOLATED_WORDS!r}")
    if allow_unisolated and mode == "docker":
        raise ValueError("allow_unisolated has no meaning with mode 'docker'")
    if mode == "local":
        return _local(slots, allow_unisolated, hidden)
    if mode == "docker":
        return _docker(slots)
    if mode != "auto":
        raise ValueError(f"sandbox mode is {mode!r}; choose 'auto', 'local' or 'docker'")
    return _auto(slots, allow_unisolated, hidden)


def _auto(slots: int, allow_unisolated: str, hidden: Sequence[Path]) -> Sandbox:
    try:
        sandbox = _local(slots, "", hidden)
        _log.info("sandbox: local (bubblewrap)")
        return sandbox
    except SandboxUnavailableError as error:
        no_local = error
    try:
        sandbox = _docker(slots)
        _log.info("sandbox: docker, because local is not there: %s", no_local)
        return sandbox
    except SandboxUnavailableError as error:
        no_docker = error
    if allow_unisolated:
        return _local(slots, allow_unisolated, hidden)
    raise SandboxUnavailableError(f"no sandbox on this machine. local: {no_local}. docker: {no_docker}")


def _local(slots: int, allow_unisolated: str, hidden: Sequence[Path]) -> Sandbox:
    from deepgym.sandbox.local.sandbox import LocalSandbox

    try:
        return LocalSandbox(slots, hidden=hidden)
    except SandboxUnavailableError:
        if not allow_unisolated:
            raise
    from deepgym.sandbox.local.unisolated import UnisolatedSandbox

    _log.warning("sandbox: NONE. Answers run as plain processes of this user, as allow_unisolated asks")
    return UnisolatedSandbox(slots)


def _docker(slots: int) -> Sandbox:
    try:
        from deepgym.sandbox.docker.client import connect
        from deepgym.sandbox.docker.sandbox import DockerSandbox
    except ModuleNotFoundError as error:
        if error.name != "docker":
            raise
        raise SandboxUnavailableError("the Python package docker is not installed: pip install docker") from error
    connect().close()  # an engine that does not answer is refused now, not at the first answer
    return DockerSandbox(slots=slots)

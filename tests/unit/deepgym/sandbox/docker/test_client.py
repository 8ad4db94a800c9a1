"""Where the engine is looked for."""

import socket

import pytest

from deepgym.exceptions import SandboxUnavailableError
from deepgym.sandbox.docker import client


def test_docker_host_comes_first(monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "tcp://engine:2375")
    assert client.find_engine() == "tcp://engine:2375"


def test_the_user_s_own_socket_is_found(monkeypatch, tmp_path):
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "podman").mkdir()
    with socket.socket(socket.AF_UNIX) as engine:
        engine.bind(str(tmp_path / "podman" / "podman.sock"))
        assert client.find_engine() == f"unix://{tmp_path}/podman/podman.sock"


def test_without_an_engine_the_error_names_the_places_and_a_way_out(monkeypatch):
    monkeypatch.setattr(client, "find_engine", lambda: None)
    with pytest.raises(SandboxUnavailableError, match=r"/podman/podman\.sock.*podman\.socket.*mode='local'"):
        client.connect()

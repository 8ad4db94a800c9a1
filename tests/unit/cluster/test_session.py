"""Whether a run joins a Ray cluster or starts its own, over a Ray that is only asked, never started."""

import os
import signal
import subprocess

import pytest

from openrlhf.cluster import session
from openrlhf.cluster.errors import ClusterError
from openrlhf.cluster.session import ray_session


@pytest.fixture
def asked(monkeypatch) -> list[dict]:
    """The arguments of each ray.init; Ray takes SIGTERM over, as the real one does."""
    inits: list[dict] = []

    def init(**arguments) -> None:
        inits.append(arguments)
        signal.signal(signal.SIGTERM, lambda *_: None)

    monkeypatch.setattr(session.ray, "init", init)
    monkeypatch.setattr(session.ray, "shutdown", lambda: inits.append({"shutdown": True}))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    return inits


@pytest.fixture
def no_cluster(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))


def test_without_a_cluster_a_local_ray_lives_as_long_as_the_block(asked, no_cluster, monkeypatch):
    monkeypatch.delenv("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", raising=False)
    with ray_session("cpu"):
        assert asked[0]["address"] == "local"
        assert asked[0]["num_gpus"] == 0
        assert len(asked) == 1
    assert asked[1:] == [{"shutdown": True}]


def test_the_commands_sigterm_handler_survives_ray(asked, no_cluster):
    before = signal.getsignal(signal.SIGTERM)
    with ray_session("cpu"):
        assert signal.getsignal(signal.SIGTERM) == before


def session_of_a_child() -> int:
    """Of one that is started as Ray starts its own: with Python between fork and exec."""
    child = subprocess.Popen(["sleep", "60"], preexec_fn=lambda: None)
    try:
        return os.getsid(child.pid)
    finally:
        child.kill()
        child.wait()


def test_a_local_ray_starts_its_processes_outside_the_commands_process_group(asked, no_cluster, monkeypatch):
    sessions = []
    monkeypatch.setattr(session.ray, "init", lambda **_: sessions.append(session_of_a_child()))
    with ray_session("cpu"):
        assert os.getsid(0) not in sessions
        assert len(sessions) == 1
        assert session_of_a_child() == os.getsid(0)  # what the command starts later stays with it


def test_an_announced_cluster_is_joined(asked, monkeypatch):
    connected = []
    monkeypatch.setattr(session, "canonicalize_bootstrap_address", lambda _: "10.0.0.1:6379")
    monkeypatch.setattr(
        session.socket, "create_connection", lambda where, timeout: connected.append(where) or session.socket.socket()
    )
    with ray_session("cpu"):
        assert asked[0]["address"] == "10.0.0.1:6379"
        assert "num_gpus" not in asked[0]
    assert connected == [("10.0.0.1", 6379)]


def test_a_cluster_that_is_gone_is_an_error_at_once_and_no_local_one_is_started(asked, monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    with pytest.raises(ClusterError, match=r"no Ray answers at .*RAY_ADDRESS"), ray_session("cpu"):
        pass
    assert asked == [{"shutdown": True}]


def late(times: int, asked: list[dict]):
    """A ray.init whose node comes up late so many times."""

    def init(**arguments) -> None:
        asked.append(arguments)
        if sum("address" in call for call in asked) <= times:
            raise Exception("The current node timed out during startup. This could happen because ...")

    return init


def test_a_node_that_comes_up_late_is_started_again(asked, no_cluster, monkeypatch, caplog):
    monkeypatch.setattr(session.ray, "init", late(2, asked))
    with ray_session("cpu"):
        assert ["shutdown" in call for call in asked] == [False, True, False, True, False]
    assert "starting it again" in caplog.text


def test_a_node_that_never_comes_up_is_one_line(asked, no_cluster, monkeypatch):
    monkeypatch.setattr(session.ray, "init", late(9, asked))
    with (
        pytest.raises(ClusterError, match="a local Ray could not start: The current node timed out"),
        ray_session("cpu"),
    ):
        pass

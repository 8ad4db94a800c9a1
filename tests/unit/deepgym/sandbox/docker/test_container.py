"""What a container is asked to be, for each wall, and the engine's stream format."""

import socket
import struct
from dataclasses import fields

import pytest

from deepgym.sandbox.base import MIB, Limits
from deepgym.sandbox.docker.container import Container, Shape, _host_config
from deepgym.sandbox.runner.defences import Defences

SHAPE = Shape.of(Limits(memory_bytes=100 * MIB, processes=10, open_files=20, disk_bytes=8 * MIB))


def test_with_all_walls_nothing_is_shared_with_the_host():
    config = _host_config(SHAPE, Defences())
    assert config["network_mode"] == "none"
    assert config["cap_drop"] == ["ALL"]
    assert config["security_opt"] == ["no-new-privileges"]
    assert config["read_only"] is True
    assert config["auto_remove"] is True
    assert not {"pid_mode", "binds", "cap_add", "privileged", "devices"} & set(config)
    # 100 for the processes, 8 for the disk in memory, 32 for the runner
    assert config["mem_limit"] == config["memswap_limit"] == 140 * MIB
    assert config["pids_limit"] == 11  # and the runner
    assert f"size={8 * MIB}" in config["tmpfs"]["/tmp"]


@pytest.mark.parametrize(
    "wall", ["no_network", "seccomp", "private_processes", "no_capabilities", "hidden_host", "private_disk"]
)
def test_each_wall_changes_what_the_engine_is_asked(wall):
    assert wall in {field.name for field in fields(Defences)}
    assert _host_config(SHAPE, Defences(**{wall: False})) != _host_config(SHAPE, Defences())


@pytest.fixture
def stream():
    """A container whose stream is one end of a socket pair, and the engine's end."""
    ours, engines = socket.socketpair()
    container = Container.__new__(Container)  # without an engine
    container._stream, container.stderr = ours, b""
    with ours, engines:
        container.set_timeout(5)
        yield container, engines


def frame(kind: int, data: bytes) -> bytes:
    return struct.pack(">BxxxI", kind, len(data)) + data


def test_stdout_comes_through_and_stderr_is_kept_aside(stream):
    container, engine = stream
    engine.sendall(frame(1, b"abc") + frame(2, b"Traceback") + frame(1, b"d"))
    engine.close()
    assert [container.receive(), container.receive(), container.receive()] == [b"abc", b"d", b""]
    assert container.stderr == b"Traceback"


def test_a_stream_that_breaks_within_a_frame_has_ended(stream):
    container, engine = stream
    engine.sendall(frame(1, b"abcdef")[:-2])
    engine.close()
    assert container.receive() == b""


def test_silence_is_a_timeout(stream):
    container, _ = stream
    container.set_timeout(0.01)
    with pytest.raises(TimeoutError):
        container.receive()

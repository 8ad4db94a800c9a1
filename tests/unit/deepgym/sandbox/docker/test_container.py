"""What a container is asked to be, for each wall, and the engine's stream format."""

import os
import socket
import struct
import time
from dataclasses import fields
from unittest import mock

import pytest
import requests
from docker.errors import DockerException, NotFound

from deepgym.exceptions import SandboxError
from deepgym.sandbox.base import MIB, Limits
from deepgym.sandbox.docker import container as container_module
from deepgym.sandbox.docker import image, sandbox
from deepgym.sandbox.docker.container import Container, Shape, _host_config, remove, sweep
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
    container._stream, container.stderr, container.id = ours, b"", "c0"
    container._hung_up = container._broken = False
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


@pytest.mark.parametrize(
    ("state", "lost"),
    [({"State": {"Running": True}}, True), ({"State": {"Running": False}}, False), (NotFound("gone"), False)],
)
def test_a_broken_stream_is_the_engine_s_fault_where_the_container_goes_on(stream, state, lost):
    container, engine = stream
    container._api = mock.Mock(inspect_container=mock.Mock(side_effect=[state]))
    container.send(b"unread")
    engine.close()  # with something unread in it: the other side is told that the connection was reset
    assert container.receive() == b""
    assert container.lost() is lost


def test_a_stream_that_ended_or_that_we_closed_is_nobody_s_fault(stream):
    container, engine = stream
    container._api = mock.Mock(inspect_container=mock.Mock(side_effect=AssertionError("not asked")))
    engine.close()
    assert (container.receive(), container.lost()) == (b"", False)
    container.hang_up()
    assert (container.receive(), container.lost()) == (b"", False)


def test_an_engine_that_is_gone_is_a_sandbox_error_from_every_call(stream):
    """The SDK lets requests' own errors through, which are no DockerException."""
    container, engine = stream
    gone = mock.Mock(side_effect=requests.exceptions.ConnectionError("refused"))
    container._api = api = mock.Mock(inspect_container=gone, containers=gone, remove_container=gone)
    container.send(b"unread")
    engine.close()  # with something unread in it: the other side is told that the connection was reset
    container.receive()
    for call in (container.lost, container.remove, lambda: sweep(api)):
        with pytest.raises(SandboxError, match="refused"):
            call()
    client = mock.Mock(images=mock.Mock(list=gone))
    with pytest.raises(SandboxError, match="refused"):
        image.ensure_image(client)


def test_closing_gives_the_descriptor_back_while_the_sdk_s_reader_lives(stream):
    """Reader and response of the SDK refer to each other, so they live until the garbage collector comes by."""
    container, _ = stream
    reader = container._stream.makefile("rb", buffering=0)
    container._api = mock.Mock(attach_socket=mock.Mock(return_value=reader))
    container._stream = container._attach()
    descriptor = reader.fileno()
    container.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)
    container.close()
    container.hang_up()  # both may come again
    reader.close()


class Removing:
    """An engine that refuses some removals of a container that was created and never started."""

    def __init__(self, refusals: int) -> None:
        self.refusals, self.there = refusals, True

    def containers(self, *, all: bool = False) -> list[dict[str, object]]:
        return [{"Id": "c0"}] if all and self.there else []  # without `all` an engine lists what runs

    def remove_container(self, container: str, force: bool) -> None:
        if self.refusals:
            self.refusals -= 1
            raise DockerException("busy")
        self.there = False


def test_a_container_that_does_not_run_is_removed_too(monkeypatch):
    monkeypatch.setattr(container_module, "_REMOVAL_PAUSES", (0.0, 0.0))
    engine = Removing(refusals=2)
    remove(engine, "c0")
    assert not engine.there


def test_an_engine_that_does_not_remove_a_container_is_named(monkeypatch):
    monkeypatch.setattr(container_module, "_REMOVAL_PAUSES", (0.0, 0.0))
    engine = Removing(refusals=3)
    with pytest.raises(SandboxError, match="container c0 could not be removed: busy"):
        remove(engine, "c0")
    engine = Removing(refusals=1)
    engine.there = False  # the engine did so itself meanwhile
    remove(engine, "c0")


class Engine:
    """The engine's list of containers, and what is removed from it."""

    def __init__(self, *ages: float) -> None:
        self.entries = [{"Id": f"c{i}", "Created": time.time() - age} for i, age in enumerate(ages)]
        self.asked: dict[str, object] = {}
        self.removed: list[str] = []

    def containers(self, **asked: object) -> list[dict[str, object]]:
        self.asked = asked
        return self.entries

    def remove_container(self, container: str, force: bool) -> None:
        assert force
        self.removed.append(container)


def test_what_was_made_and_never_started_is_swept():
    """Ours only; a young one may be about to be started by another process."""
    engine = Engine(3600, 5, 200)
    assert sweep(engine) == 2
    assert engine.removed == ["c0", "c2"]
    assert engine.asked == {"all": True, "filters": {"label": "deepgym.owner", "status": "created"}}


def test_a_sweep_without_an_engine_is_a_sandbox_error(monkeypatch):
    engine = Engine()
    monkeypatch.setattr(engine, "containers", mock.Mock(side_effect=DockerException("gone")))
    with pytest.raises(SandboxError, match="does not list its containers: gone"):
        sweep(engine)


async def test_the_sandbox_sweeps_when_it_starts(monkeypatch):
    engine, order = Engine(3600), []
    client = mock.Mock(api=engine)
    monkeypatch.setattr(sandbox, "connect", lambda url: client)
    monkeypatch.setattr(sandbox, "ensure_image", lambda client: order.append(list(engine.removed)) or "image")
    started = sandbox.DockerSandbox(slots=1, warm=0)
    await started.start()
    assert order == [["c0"]]
    engine.entries = []
    await started.close()


@pytest.mark.parametrize(("slots", "warm", "waiting"), [(2, None, 2), (64, None, 4), (64, 9, 9), (8, 0, 0)])
async def test_few_containers_wait_on_a_machine_of_many_cores(monkeypatch, slots, warm, waiting):
    made = []
    monkeypatch.setattr(sandbox, "connect", lambda url: mock.Mock(api=Engine()))
    monkeypatch.setattr(sandbox, "ensure_image", lambda client: "image")
    monkeypatch.setattr(sandbox, "Container", lambda *_: made.append(mock.Mock()) or made[-1])
    started = sandbox.DockerSandbox(slots=slots, warm=warm)
    await started.start()
    await started.close()
    assert len(made) == waiting

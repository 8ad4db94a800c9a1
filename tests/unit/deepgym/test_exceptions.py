"""Whose fault a failure is."""

import asyncio
import errno
import http.client
import socket
import ssl
import subprocess
import urllib.error
from email.message import Message

import pytest

from deepgym import exceptions
from deepgym.exceptions import error_type_of, is_infrastructure_failure


def raised_from(exc: Exception, cause: BaseException) -> Exception:
    exc.__cause__ = cause
    return exc


@pytest.mark.parametrize(
    ("exc", "infrastructure", "error_type"),
    [
        (exceptions.SandboxError("x"), True, "sandbox_error"),
        (exceptions.SandboxUnavailableError("x"), True, "sandbox_error"),
        (exceptions.SandboxTimeoutError("x"), True, "timeout"),
        (exceptions.SandboxStarvedError("x"), True, "timeout"),
        (exceptions.VerifierError("x"), False, "verifier_error"),
        (exceptions.InvalidScoreError("x"), False, "invalid_score"),
        (exceptions.UnknownEnvironmentError("x"), False, "unknown_error"),
        (exceptions.EnvironmentDefinitionError("x"), False, "unknown_error"),
        (ConnectionResetError(), True, "unknown_error"),
        (TimeoutError(), True, "timeout"),
        (socket.gaierror(), True, "unknown_error"),
        (asyncio.CancelledError(), True, "unknown_error"),
        (ValueError("x"), False, "unknown_error"),
        (MemoryError(), False, "unknown_error"),
        (FileNotFoundError(), False, "unknown_error"),
        (raised_from(RuntimeError("SDK"), ConnectionRefusedError()), True, "unknown_error"),
        (ssl.SSLError("handshake"), True, "unknown_error"),
        (OSError(errno.EHOSTUNREACH, "No route to host"), True, "unknown_error"),
        (OSError(errno.ENETUNREACH, "Network is unreachable"), True, "unknown_error"),
        (OSError(errno.ENOSPC, "No space left on device"), False, "unknown_error"),
        (http.client.IncompleteRead(b""), True, "unknown_error"),
        (http.client.InvalidURL("x"), False, "unknown_error"),
        (urllib.error.URLError(ConnectionRefusedError()), True, "unknown_error"),
        (urllib.error.HTTPError("http://x", 404, "Not Found", Message(), None), False, "unknown_error"),
        (subprocess.TimeoutExpired("docker", 1.0), True, "unknown_error"),
        # A verifier that called a service which was down is still the verifier's fault: a second run costs, and
        # the environment's author has to hear of it.
        (raised_from(exceptions.VerifierError("x"), ConnectionError()), False, "verifier_error"),
    ],
)
def test_whose_fault(exc, infrastructure, error_type):
    assert is_infrastructure_failure(exc) is infrastructure
    assert error_type_of(exc) == error_type


@pytest.mark.parametrize(
    ("module", "name", "infrastructure"),
    [
        ("requests", "ConnectionError", True),
        ("requests", "ConnectTimeout", True),
        ("requests", "ReadTimeout", True),
        ("requests.exceptions", "ChunkedEncodingError", True),
        ("requests", "HTTPError", False),  # an answer came
        ("requests.exceptions", "MissingSchema", False),
        ("httpx", "ConnectError", True),
        ("httpx", "ReadTimeout", True),
        ("httpx", "RemoteProtocolError", True),
        ("httpx", "UnsupportedProtocol", False),  # a mistake in the address
        ("httpcore", "ReadError", True),
        ("httpx2", "ConnectError", True),
        ("aiohttp", "ServerDisconnectedError", True),
        ("aiohttp", "ClientPayloadError", True),
        ("aiohttp", "ServerTimeoutError", True),
        ("aiohttp", "InvalidURL", False),
        ("anyio.streams.memory", "BrokenResourceError", True),
        ("anyio.streams.memory", "ClosedResourceError", True),
        ("anyio.streams.memory", "EndOfStream", True),
        ("anyio.streams.memory", "WouldBlock", False),
        ("urllib3.exceptions", "ProtocolError", True),
        ("urllib3.exceptions", "LocationValueError", False),
        ("docker.errors", "DockerException", True),
        ("grpc", "RpcError", True),
    ],
)
def test_the_usual_clients_network_errors(module, name, infrastructure):
    kind = vars(pytest.importorskip(module))[name]
    assert is_infrastructure_failure(kind.__new__(kind)) is infrastructure


def test_an_error_of_the_same_name_in_another_package_says_nothing():
    kind = type("Timeout", (Exception,), {"__module__": "mypackage.requests"})
    assert not is_infrastructure_failure(kind())


def test_a_ring_of_causes_ends():
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert not is_infrastructure_failure(first)

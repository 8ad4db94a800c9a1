"""What can go wrong, by whose fault.

    DeepGymError
    ├── EnvironmentDefinitionError     an environment folder or record is wrong          its author's
    ├── UnknownEnvironmentError        no environment of that name                        the caller's
    ├── VerifierError                  the verifier raised, or its cases are wrong        the verifier's
    │   └── InvalidScoreError          it gave NaN, a number outside [0, 1], no number    the verifier's
    └── SandboxError                   the sandbox broke                                  the provider's
        ├── SandboxUnavailableError    bubblewrap, the engine or its socket is not there  the provider's
        ├── SandboxTimeoutError        the provider did not answer in time                the provider's
        └── SandboxStarvedError        the host gave the answer no core to run on         the host's

What the answer itself breaks is no exception: it is a verdict with score 0 (`deepgym.models.ErrorType`).
"""

import asyncio
import concurrent.futures
import errno
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator, Mapping

from deepgym.models import ErrorType


class DeepGymError(Exception):
    """Root of all errors that deepgym raises on purpose."""

    error_type: ErrorType = ErrorType.UNKNOWN_ERROR


class EnvironmentDefinitionError(DeepGymError):
    """An environment's folder or record cannot be used; the message names the file and the field."""


class UnknownEnvironmentError(DeepGymError, LookupError):
    """No environment has that name; the message lists those that exist."""


class VerifierError(DeepGymError):
    """The verifier failed before it could judge."""

    error_type = ErrorType.VERIFIER_ERROR


class InvalidScoreError(VerifierError):
    """The verifier's score is no score: NaN, infinite, outside [0, 1], or not a number."""

    error_type = ErrorType.INVALID_SCORE


class SandboxError(DeepGymError):
    """The sandbox or its provider failed; the answer is not to blame, and a second try may work."""

    error_type = ErrorType.SANDBOX_ERROR


class SandboxUnavailableError(SandboxError):
    """What the sandbox needs is not on this machine; the message names it and the way to get it."""


class SandboxTimeoutError(SandboxError, TimeoutError):
    """The provider did not answer within its time."""

    error_type = ErrorType.TIMEOUT


class SandboxStarvedError(SandboxError):
    """The run was stopped without having used its CPU or idle time: the host was too busy to run it."""

    error_type = ErrorType.TIMEOUT


# What a network or a remote provider raises through libraries that know nothing of deepgym.
_NETWORK_ERRORS = (
    ConnectionError,
    TimeoutError,
    socket.gaierror,
    socket.herror,
    ssl.SSLError,
    asyncio.IncompleteReadError,
    subprocess.TimeoutExpired,
)
_NETWORK_ERRNOS = frozenset(
    {
        errno.EADDRNOTAVAIL,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.ENETDOWN,
        errno.ENETRESET,
        errno.ENETUNREACH,
        errno.ENOTCONN,
    }
)
# The classes that clients' own network errors derive from, by package: who raises them has imported them, we need not.
_HTTPX_ERRORS = frozenset({"TimeoutException", "NetworkError", "RemoteProtocolError", "ProxyError"})
_FOREIGN_ERRORS: Mapping[str, frozenset[str]] = {
    "aiohttp": frozenset({"ClientConnectionError", "ClientPayloadError"}),
    "anyio": frozenset({"BrokenResourceError", "ClosedResourceError", "EndOfStream"}),
    "botocore": frozenset({"ConnectionError", "HTTPClientError"}),
    "docker": frozenset({"DockerException"}),
    "grpc": frozenset({"RpcError"}),
    "http": frozenset({"IncompleteRead", "BadStatusLine"}),
    **dict.fromkeys(("httpcore", "httpcore2", "httpx", "httpx2"), _HTTPX_ERRORS),
    "requests": frozenset({"ConnectionError", "Timeout", "ChunkedEncodingError"}),
    "urllib": frozenset({"URLError", "ContentTooShortError"}),
    "urllib3": frozenset({"TimeoutError", "ProtocolError", "NewConnectionError", "MaxRetryError", "SSLError"}),
}
_CANCELLED = (asyncio.CancelledError, concurrent.futures.CancelledError)  # some SDKs leak their own cancellations


def is_infrastructure_failure(exc: BaseException) -> bool:
    """True for what the sandbox's provider or the network broke, so that grading again may help.

    A foreign exception counts when it, or what it was raised from, is a connection, time-out or name-resolution
    error: Python's own, or one of the usual clients'. Errors of the verifier and of environments never count,
    whatever caused them.
    """
    if isinstance(exc, DeepGymError):
        return isinstance(exc, SandboxError)
    return any(
        isinstance(link, (*_NETWORK_ERRORS, *_CANCELLED, SandboxError))
        or (isinstance(link, OSError) and link.errno in _NETWORK_ERRNOS)
        or _is_a_clients(link)
        for link in _causes(exc)
    )


def _is_a_clients(exc: BaseException) -> bool:
    """A network error of one of the libraries that providers' clients are made of."""
    kinds = {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(exc).__mro__}
    if ("urllib", "HTTPError") in kinds:  # an answer that came, though it is a URLError
        return False
    return any(name in _FOREIGN_ERRORS.get(package, ()) for package, name in kinds)


def error_type_of(exc: BaseException) -> ErrorType:
    """The name under which a result or a reward reports this exception."""
    if isinstance(exc, DeepGymError):
        return exc.error_type
    if isinstance(exc, TimeoutError):
        return ErrorType.TIMEOUT
    return ErrorType.UNKNOWN_ERROR


def _causes(exc: BaseException) -> Iterator[BaseException]:
    """The exception and the chain it was explicitly raised from."""
    seen: set[int] = set()
    link: BaseException | None = exc
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        yield link
        link = link.__cause__


# What loading a verifier's file may raise, `sys.exit()` too, which must end neither a server nor a command.
VERIFIER_FAULTS = (Exception, SystemExit)


def is_ctrl_c(exc: BaseException) -> bool:
    """Whether it may be the signal that ends a command, which nobody may swallow: that reaches the main thread only.

    In any other thread a KeyboardInterrupt was raised by somebody's code, such as a verifier's.
    """
    return isinstance(exc, KeyboardInterrupt) and threading.current_thread() is threading.main_thread()


def named(exc: BaseException) -> str:
    """Type and message, also of a foreign exception whose `__str__` raises."""
    try:
        return f"{type(exc).__name__}: {exc}"
    except BaseException as fault:
        if is_ctrl_c(fault):
            raise
        return f"{type(exc).__name__} (its message cannot be shown)"

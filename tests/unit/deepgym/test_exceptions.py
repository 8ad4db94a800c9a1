"""Whose fault a failure is."""

import asyncio
import socket

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
        # A verifier that called a service which was down is still the verifier's fault: a second run costs, and
        # the environment's author has to hear of it.
        (raised_from(exceptions.VerifierError("x"), ConnectionError()), False, "verifier_error"),
    ],
)
def test_whose_fault(exc, infrastructure, error_type):
    assert is_infrastructure_failure(exc) is infrastructure
    assert error_type_of(exc) == error_type


def test_a_ring_of_causes_ends():
    first, second = ValueError("a"), ValueError("b")
    first.__cause__, second.__cause__ = second, first
    assert not is_infrastructure_failure(first)

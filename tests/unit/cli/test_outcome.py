"""From the way a run ended to an exit code and what stderr says."""

import os
import signal
import socket
from datetime import timedelta

import pytest

from openrlhf.cli.outcome import run_to_exit_code


class Expected(Exception):
    pass


def expected():
    return (Expected,)


def never():
    raise AssertionError("asked without a failure")


def raising(error: BaseException):
    def job() -> None:
        raise error

    return job


def test_a_finished_run_says_nothing(capsys):
    assert run_to_exit_code(lambda: None, never) == 0
    assert capsys.readouterr() == ("", "")


def test_an_expected_failure_is_one_line(capsys):
    assert run_to_exit_code(raising(Expected("prompts.jsonl:\n  line 3\n is broken")), expected) == 1
    assert capsys.readouterr() == ("", "error: prompts.jsonl: line 3 is broken\n")


def test_a_defect_keeps_its_traceback(capsys):
    assert run_to_exit_code(raising(ZeroDivisionError("of ours")), expected) == 1
    printed = capsys.readouterr().err
    assert printed.startswith("Traceback")
    assert printed.endswith("ZeroDivisionError: of ours\n")


@pytest.fixture
def ctrl_c_works():
    """A test run in the background of a shell has Ctrl-C ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("number", "code", "word"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_a_signal_unwinds_once(capsys, ctrl_c_works, number, code, word):
    """Signals that arrive while the run's processes are being ended must not break that off."""
    before = [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)]
    ended = []

    def job() -> None:
        try:
            os.kill(os.getpid(), number)
            ended.append("not interrupted")
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGTERM)
            ended.append("cleaned up")

    assert run_to_exit_code(job, never) == code
    assert ended == ["cleaned up"]
    assert capsys.readouterr() == ("", f"{word}\n")
    assert [signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_background_job_goes_on_ignoring_ctrl_c():
    """A shell starts `command &` with Ctrl-C ignored; it is meant for the command in front."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert run_to_exit_code(lambda: os.kill(os.getpid(), signal.SIGINT), never) == 0
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_port_in_use_is_one_line(capsys):
    from torch.distributed import TCPStore

    from openrlhf.pipeline.failures import EXPECTED_FAILURES

    with socket.socket() as holder:
        holder.bind(("", 0))
        holder.listen()
        port = holder.getsockname()[1]
        job = lambda: TCPStore("127.0.0.1", port, 1, True, timedelta(seconds=5))  # noqa: E731
        assert run_to_exit_code(job, lambda: EXPECTED_FAILURES) == 1
    (line,) = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("[")]
    assert line.startswith("error: ")
    assert str(port) in line
    assert "address already in use" in line

import logging
import os

import pytest

from deepgym.exceptions import SandboxUnavailableError
from deepgym.sandbox import auto
from deepgym.sandbox.auto import UNISOLATED_WORDS, make_sandbox
from deepgym.sandbox.local import sandbox as local


@pytest.fixture
def no_bubblewrap(monkeypatch):
    def refuse():
        raise SandboxUnavailableError("bubblewrap is not installed")

    monkeypatch.setattr(local, "find_bubblewrap", refuse)


@pytest.fixture
def no_docker(monkeypatch):
    def refuse(slots):
        raise SandboxUnavailableError("no engine")

    monkeypatch.setattr(auto, "_docker", refuse)


def test_auto_takes_bubblewrap_and_says_so(caplog):
    caplog.set_level(logging.INFO, "deepgym")
    sandbox = make_sandbox("auto", slots=1)
    assert (sandbox.name, sandbox.isolated) == ("local", True)
    assert "local (bubblewrap)" in caplog.text


def test_auto_takes_docker_where_bubblewrap_is_missing_and_says_why(monkeypatch, caplog, no_bubblewrap):
    caplog.set_level(logging.INFO, "deepgym")
    marker = object()
    monkeypatch.setattr(auto, "_docker", lambda slots: marker)
    assert make_sandbox("auto", slots=1) is marker
    assert "docker, because local is not there: bubblewrap is not installed" in caplog.text


@pytest.fixture
def forbidden_jails(monkeypatch, tmp_path):
    """A bubblewrap that the machine does not let make one, as in a container without user namespaces."""
    bwrap = tmp_path / "bwrap"
    bwrap.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2\nexit 1\n")
    bwrap.chmod(0o755)
    tmp_path.chmod(0o755)
    monkeypatch.setattr(local, "find_bubblewrap", lambda: str(bwrap))
    monkeypatch.setattr(local, "first_uid", os.getuid)


def test_auto_takes_docker_where_bubblewrap_is_there_and_cannot_work(monkeypatch, forbidden_jails):
    marker = object()
    monkeypatch.setattr(auto, "_docker", lambda slots: marker)
    assert make_sandbox("auto", slots=1) is marker
    with pytest.raises(SandboxUnavailableError, match=r"does not let bubblewrap make a jail.*Permission denied"):
        make_sandbox("local", slots=1)


def test_nothing_there_is_refused_with_both_reasons(no_bubblewrap, no_docker):
    with pytest.raises(SandboxUnavailableError, match=r"local: bubblewrap is not installed\. docker: no engine"):
        make_sandbox("auto", slots=1)


@pytest.mark.parametrize("mode", ["auto", "local"])
def test_without_walls_only_for_the_exact_words(mode, no_bubblewrap, no_docker, caplog):
    with pytest.raises(SandboxUnavailableError):
        make_sandbox(mode, slots=1)
    with pytest.raises(ValueError, match="to mean it, say"):
        make_sandbox(mode, slots=1, allow_unisolated="yes")
    sandbox = make_sandbox(mode, slots=1, allow_unisolated=UNISOLATED_WORDS)
    assert not sandbox.isolated
    assert "NONE" in caplog.text


def test_the_words_do_not_take_walls_away_that_are_there():
    assert make_sandbox("local", slots=1, allow_unisolated=UNISOLATED_WORDS).isolated


def test_unknown_modes_and_meaningless_words():
    with pytest.raises(ValueError, match="choose 'auto'"):
        make_sandbox("podman", slots=1)
    with pytest.raises(ValueError, match="no meaning"):
        make_sandbox("docker", slots=1, allow_unisolated=UNISOLATED_WORDS)

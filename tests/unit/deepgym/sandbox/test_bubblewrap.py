from pathlib import Path

import pytest

from deepgym.exceptions import SandboxUnavailableError
from deepgym.sandbox.local import bubblewrap
from deepgym.sandbox.local.sandbox import find_bubblewrap
from deepgym.sandbox.runner.defences import Defences

INPUTS = bubblewrap.Inputs(5, 6, 7)


def arguments(python: str = "/usr/bin/python3", hidden: tuple[Path, ...] = (), **defences: bool) -> str:
    return " ".join(bubblewrap.command("bwrap", python, INPUTS, hidden, Defences(**defences)))


def test_nothing_of_the_host_is_writable():
    words = arguments().split()
    assert "--bind" not in words
    assert "--dev" not in words
    devices = [words[at + 1] for at, word in enumerate(words) if word == "--dev-bind"]
    assert devices == ["/dev/null", "/dev/full", "/dev/random", "/dev/urandom"]
    mounted_after = words[words.index("--remount-ro") :]
    assert mounted_after[:2] == ["--remount-ro", "/"]
    assert "--tmpfs" not in mounted_after


def test_namespaces_network_and_environment():
    text = arguments()
    for part in ("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-net", "--die-with-parent"):
        assert part in text
    assert text.index("--clearenv") < text.index("--setenv")
    assert "--unshare-net" not in arguments(no_network=False)
    assert "--clearenv" not in arguments(empty_environment=False)


def test_tasks_inside_a_shown_folder_are_covered(monkeypatch):
    """Installed under /usr, the package holds references and generators that no answer may read."""
    monkeypatch.setattr(bubblewrap, "_PACKAGE", Path("/usr/lib/python3/dist-packages/deepgym"))
    text = arguments(hidden=(Path("/usr/share/tasks"), Path("/srv/tasks")))
    for folder in ("/usr/lib/python3/dist-packages/deepgym", "/usr/share/tasks"):
        assert f"--tmpfs {folder} --remount-ro {folder}" in text
    assert "/srv/tasks" not in text  # not shown anyway


def test_an_interpreter_outside_usr_brings_its_installation_only(tmp_path):
    python = tmp_path / "python" / "bin" / "python3"
    python.parent.mkdir(parents=True)
    python.touch()
    text = arguments(str(python))
    assert f"--ro-bind {tmp_path}/python {tmp_path}/python" in text
    with pytest.raises(SandboxUnavailableError, match="no Python at"):
        arguments(str(tmp_path / "missing"))


def test_missing_bubblewrap_is_refused_with_the_way_out(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name, path: None)
    with pytest.raises(SandboxUnavailableError, match="apt-get install -y bubblewrap"):
        find_bubblewrap()

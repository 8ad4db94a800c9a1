"""The jail's root file system, made of this machine's own files."""

import io
import tarfile
from pathlib import Path

import pytest

from deepgym.exceptions import SandboxUnavailableError
from deepgym.sandbox.docker import image


@pytest.fixture
def files(tmp_path) -> dict[str, Path]:
    python = tmp_path / "python3.11"
    python.write_text("#!/bin/sh\n")
    python.chmod(0o755)
    module = tmp_path / "json.py"
    module.write_text("x = 1\n")
    return {"usr/bin/python3.11": python, "usr/lib/python3.11/json.py": module}


def test_the_tar_has_links_to_python_the_runner_and_nothing_writable_but_temporary_folders(files):
    with tarfile.open(fileobj=io.BytesIO(image.tar_bytes(files))) as tar:
        entries = {entry.name: entry for entry in tar.getmembers()}
        assert entries["usr/bin/python3"].linkname == "/usr/bin/python3.11"
        assert entries["bin"].linkname == "usr/bin"
        assert tar.extractfile(image.RUNNER).read().startswith(b"PK")
        assert {name for name, entry in entries.items() if not entry.issym() and entry.mode & 0o022} == {
            "tmp",
            "var/tmp",
        }
        assert all((entry.uid, entry.gid) == (0, 0) for entry in entries.values())
        assert not any(entry.mode & 0o6000 for entry in entries.values())  # no set-user-id programs


def test_the_fingerprint_follows_the_files(files):
    before = image.fingerprint(files)
    assert image.fingerprint(dict(files)) == before
    files["usr/lib/python3.11/json.py"].write_text("x = 12\n")
    assert image.fingerprint(files) != before


def test_host_paths_go_where_the_links_point():
    assert image._merged(Path("/lib64/ld-linux-x86-64.so.2")) == "usr/lib64/ld-linux-x86-64.so.2"
    assert image._merged(Path("/bin/sh")) == "usr/bin/sh"
    assert image._merged(Path("/usr/lib/python3.11/json.py")) == "usr/lib/python3.11/json.py"
    assert image._merged(Path("/opt/python/bin/python3")) == "opt/python/bin/python3"


def test_a_machine_without_a_shell_is_told_what_is_missing(monkeypatch):
    monkeypatch.setattr(image.shutil, "which", lambda tool: None)
    monkeypatch.setattr(image, "_stdlib", lambda interpreter: Path("/nowhere"))
    with pytest.raises(SandboxUnavailableError, match="needs bash, sh, cat, sort"):
        image.rootfs()

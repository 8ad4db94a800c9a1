"""The container engine, started once for all tests of deepgym that need it."""

import shutil
import tempfile
import time
from pathlib import Path

import pytest

from tests.integration.deepgym.engine import PodmanEngine


@pytest.fixture(scope="session")
def engine_url():
    """Address of a running engine. An engine that does not start fails the tests that want it."""
    # Not pytest's folder: a socket's path may have about a hundred characters.
    folder = Path(tempfile.mkdtemp(prefix="podman-"))
    engine = PodmanEngine(folder)
    try:
        engine.start()
        yield engine.url
    finally:
        engine.stop()
        _remove(folder)


def _remove(folder: Path) -> None:
    """The engine's last clean-up processes may still write into it for a moment."""
    deadline = time.monotonic() + 10
    while folder.exists() and time.monotonic() < deadline:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(0.2)

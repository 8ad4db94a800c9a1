"""Finding the port that a server under test has picked for itself."""

import re
import subprocess
import time
from pathlib import Path

START_SECONDS = 120.0


def address_in(log: Path, server: "subprocess.Popen[bytes]") -> str:
    """The address that uvicorn announces in `log`, once it answers there.

    Raises:
        RuntimeError: the server ended, or did not come up in time; shows the log.
    """
    deadline = time.monotonic() + START_SECONDS
    while True:
        text = log.read_text(encoding="utf-8")
        if found := re.search(r"Uvicorn running on (http://\S+)", text):
            return found[1]
        if server.poll() is not None:
            raise RuntimeError(f"the server ended with {server.returncode}: {text[-2000:]}")
        if time.monotonic() > deadline:
            raise RuntimeError(f"the server did not come up in {START_SECONDS:.0f} s: {text[-2000:]}")
        time.sleep(0.1)

"""The host as the attacks see it: things on it that an answer must not reach, each with a way to notice."""

import json
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import threading
from pathlib import Path

import deepgym
from deepgym.sandbox.runner import syscalls

SECRET_VARIABLE = "DEEPGYM_TEST_SECRET"
# The user that answers have in a container: what hides this victim from them is the PID namespace alone.
_VICTIM_USER = 65534


class Host:
    """Listeners on TCP, UDP and an abstract Unix socket, a process, a file and a folder. Use it as a context."""

    def __enter__(self) -> "Host":
        self._stop = threading.Event()
        self._tcp = socket.create_server(("127.0.0.1", 0))
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind(("127.0.0.1", 0))
        self._unix = socket.socket(socket.AF_UNIX)
        abstract_name = f"deepgym-test-{secrets.token_hex(8)}"
        self._unix.bind("\0" + abstract_name)
        self._unix.listen()
        self._echo = threading.Thread(target=self._answer_pings, daemon=True)
        self._echo.start()
        self._victim = subprocess.Popen(["sleep", "3600"], user=_VICTIM_USER, group=_VICTIM_USER, extra_groups=[])
        # In a folder that is no part of any jail and, other than /tmp, is none of a jail's own names.
        self.folder = Path(tempfile.mkdtemp(prefix="deepgym-test-", dir="/srv"))
        self.folder.chmod(0o777)
        secret = self.folder / "secret.txt"
        secret.write_text("hidden cases")
        machine = os.uname().machine
        tables = (syscalls.allowed, syscalls.checked, syscalls.refused)
        numbers = {name: number for table in tables for name, number in table(machine).items()}
        # Not in the filter's tables, since it is not named there: what is not named does not exist.
        numbers |= {"memfd_create": {"x86_64": 319, "aarch64": 279}[machine]}
        facts = {
            "tcp_port": self._tcp.getsockname()[1],
            "udp_port": self._udp.getsockname()[1],
            "abstract_name": abstract_name,
            "victim_pid": self._victim.pid,
            "secret_path": str(secret),
            "open_folder": str(self.folder),
            "verifier": str(Path(deepgym.__file__).resolve().parent / "envs" / "coin_change" / "verifier.py"),
            "core": min(os.sched_getaffinity(0)),  # one that the kernel would give: CPU 0 may not be ours
            "daemon_mark": f"daemon-{secrets.token_hex(8)}",
            "syscalls": numbers,
        }
        self.daemon_mark = facts["daemon_mark"]
        self.facts = json.dumps(facts).encode()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._echo.join(5)
        for listener in (self._tcp, self._udp, self._unix):
            listener.close()
        self._victim.kill()
        self._victim.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def unharmed(self) -> bool:
        """The victim lives, and nobody wrote into the folder."""
        return self._victim.poll() is None and [path.name for path in self.folder.iterdir()] == ["secret.txt"]

    def clean_up(self) -> None:
        """Remove what an attack planted where its wall was away."""
        (self.folder / "planted").unlink(missing_ok=True)

    def processes_with_mark(self) -> list[int]:
        """Processes of this machine whose command line has the daemon's mark."""
        found = []
        for folder in Path("/proc").iterdir():
            if folder.name.isdecimal():
                try:
                    if self.daemon_mark.encode() in (folder / "cmdline").read_bytes():
                        found.append(int(folder.name))
                except OSError:
                    continue  # it ended
        return found

    def _answer_pings(self) -> None:
        self._udp.settimeout(0.2)
        while not self._stop.is_set():
            try:
                _, sender = self._udp.recvfrom(16)
                self._udp.sendto(b"pong", sender)
            except TimeoutError:
                continue

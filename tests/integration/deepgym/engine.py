"""Debian's podman serving the Docker API on a unix socket, with a store of its own, for the length of a test run."""

import contextlib
import shlex
import shutil
import signal
import subprocess
import time
from pathlib import Path

import docker

READY_SECONDS = 60.0
STOP_SECONDS = 30.0
REMOVE_SECONDS = 120.0  # for all containers, on a busy machine


class PodmanEngine:
    """`podman system service` on `folder/podman.sock`.

    It runs in a mount namespace of its own, in which cgroup v2 is out of sight where the machine mounts it beside
    v1: crun refuses such a hybrid. The namespace also takes podman's overlay mounts with it when it ends.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.url = f"unix://{folder}/podman.sock"
        self._log = folder / "podman.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        missing = [tool for tool in ("podman", "crun", "conmon", "unshare", "setpriv") if shutil.which(tool) is None]
        if missing:
            raise RuntimeError(f"{', '.join(missing)} not installed; run: tools/setup.sh")
        serve = self._podman("system", "service", "--time=0", self.url)
        hide = "if mountpoint -q /sys/fs/cgroup/unified; then umount /sys/fs/cgroup/unified; fi"
        die_with_us = ["setpriv", "--pdeathsig", "TERM"]
        command = [
            *die_with_us,
            "unshare",
            "--mount",
            "--propagation",
            "private",
            "sh",
            "-c",
            f"{hide}; exec {shlex.join(serve)}",
        ]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self.folder)
        self._wait_until_ready(self._process)

    def stop(self) -> None:
        """Remove every container, then end the service."""
        if self._process is None:
            return
        enter = ["nsenter", f"--mount=/proc/{self._process.pid}/ns/mnt"]
        with contextlib.suppress(subprocess.TimeoutExpired):  # the service has to end all the same
            subprocess.run(
                [*enter, *self._podman("rm", "--all", "--force", "--time=0")],
                check=False,
                capture_output=True,
                timeout=REMOVE_SECONDS,
            )
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_SECONDS)
        self._process = None

    def _podman(self, *arguments: str) -> list[str]:
        store = ["--root", str(self.folder / "store"), "--runroot", str(self.folder / "run")]
        return ["podman", *store, "--storage-driver=overlay", "--cgroup-manager=cgroupfs", *arguments]

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + READY_SECONDS
        socket = self.folder / "podman.sock"
        while time.monotonic() < deadline:
            if process.poll() is not None:
                raise RuntimeError(f"podman ended with {process.returncode}: {self._log.read_text()[-2000:]}")
            if socket.exists():
                client = docker.DockerClient(base_url=self.url, timeout=READY_SECONDS)
                try:
                    client.ping()
                    return
                except docker.errors.DockerException:
                    pass  # the socket's file is there before its server; the loop above gives up in time
                finally:
                    client.close()
            time.sleep(0.05)
        raise RuntimeError(f"podman did not answer in {READY_SECONDS:.0f} s: {self._log.read_text()[-2000:]}")

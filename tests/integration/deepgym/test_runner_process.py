"""The runner as a container starts it: one job from a pipe to a pipe."""

import select
import subprocess
import sys

from deepgym.sandbox.base import Exec, Job, Limits
from deepgym.sandbox.bundle import runner_zip
from deepgym.sandbox.protocol import encode_job


def test_a_runner_whose_host_is_gone_ends_with_its_answer(tmp_path):
    """The host's end of the pipe closes when the host is killed. The answer alone would sleep for a minute."""
    (tmp_path / "runner.zip").write_bytes(runner_zip())
    job = Job({}, (Exec(("sh", "-c", "sleep 60")),), Limits(wall_seconds=60.0))
    frames = b"".join(encode_job(job, work=str(tmp_path / "work"), tmp=str(tmp_path), nproc=None, own_disk=False))
    command = [sys.executable, "-sPB", str(tmp_path / "runner.zip"), "job"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as runner:
        assert runner.stdin is not None
        assert runner.stdout is not None
        try:
            runner.stdin.write(frames)
            runner.stdin.flush()
            assert select.select([runner.stdout], [], [], 20)[0]  # it says that it is ready
            assert runner.poll() is None
            runner.stdin.close()
            assert runner.wait(20) == 0  # a third of what the answer sleeps
        finally:
            runner.kill()

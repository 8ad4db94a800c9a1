"""The real wandb without a network: its files lie in the run folder, and the key in no file."""

import subprocess
import sys

RUN = """
import sys
from pathlib import Path
from openrlhf.config.run import WandbConfig
from openrlhf.track.wandb_writer import WandbWriter

writer = WandbWriter(WandbConfig(key=sys.argv[1], run_name="a run"), {"train": {"seed": 1}}, Path(sys.argv[2]))
writer.write(1, {"reward": 0.5, "broken": float("nan")})
writer.close()
"""


def test_an_offline_run_leaves_its_files_and_not_its_key(tmp_path):
    home, folder, key = tmp_path / "home", tmp_path / "run", "0123456789abcdef" * 3
    for made in (home, folder):
        made.mkdir()
    environment = {
        "HOME": str(home),
        "WANDB_MODE": "offline",
        "PATH": "/usr/bin:/bin",
        "PYTHONPATH": ":".join(sys.path),
    }
    subprocess.run([sys.executable, "-c", RUN, key, folder], check=True, env=environment, timeout=120, cwd=tmp_path)
    (record,) = folder.rglob("run-*.wandb")
    assert b"reward" in record.read_bytes()
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert not [path for path in written if key.encode() in path.read_bytes()]

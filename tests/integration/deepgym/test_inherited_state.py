"""What a service hands on to what it starts does not reach the verdict: ignored signals, mask for new files, PATH."""

import subprocess
import sys

import pytest

_RUN = """
import os, signal
{state}
from deepgym import DeepGym
from deepgym.registry import find_folder, load_environment
with DeepGym(mode="local", max_parallel=1) as gym:
    for name in ("coin_change", "log_report", "find_duplicates"):
        print(gym.run(load_environment(name), find_folder(name).reference()).score)
"""


@pytest.mark.parametrize(
    "state",
    [
        "signal.signal(signal.SIGCHLD, signal.SIG_IGN)",  # bwrap waits for it, and so do shells for their children
        "os.umask(0o777)",
        "os.environ['PATH'] = '/nonexistent'",
    ],
    ids=["sigchld", "umask", "path"],
)
def test_a_right_answer_scores_1_whatever_the_service_has_inherited(state):
    done = subprocess.run(
        [sys.executable, "-c", _RUN.format(state=state)], capture_output=True, text=True, timeout=120, check=False
    )
    # Three references, each right by definition.
    assert done.stdout.split() == ["1.0", "1.0", "1.0"], done.stderr

"""Looking at a run from outside: what it is doing now, and which process does it."""

import contextlib
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from openrlhf.track.rollout_file import stored_samples
from tests.integration.training import Run, rows

# The share of digits in the reply. Every call leaves a line, so that a test can tell what the run is doing.
REWARD = """
def reward_func(queries, prompts, labels):
    with open({calls!r}, "a") as calls:
        calls.writelines(label + "\\n" for label in labels)
    return [sum(c.isdigit() for c in q[len(p):]) / max(1, len(q) - len(p)) for q, p in zip(queries, prompts)]
"""
TELLING = (
    "restarting it",
    "error: ",
    "--ckpt.",
    "is ungraded",
    "resumed from",
    "is kept",
    "cannot be saved",
    "terminated",
)
# The kinds of process that a run is made of, by their titles; None: the command itself.
KINDS = {
    "driver": None,
    "trainer": "ray::PolicyActor",
    "engine": "ray::EngineActor",
    "engine core": "VLLM::EngineCore",
}


def story(run: Run, folder: Path) -> list[str]:
    """The lines of stderr that tell what happened, without tracebacks, process numbers and this machine's paths."""
    told = []
    for line in run.stderr.splitlines():
        plain = re.sub(r"\x1b\[\d+m|\(\w+ pid=\d+\)", "", line).strip().replace(str(folder), "RUN")
        if any(word in plain for word in TELLING):
            told.append(re.sub(r"\[repeated .*|body starting .*", "...", plain))
    return told


@dataclass(frozen=True)
class Watch:
    """Where a run can be observed from outside."""

    calls: Path
    output: Path
    saves: Path
    run: Run
    pids: dict[str, int] = field(default_factory=dict)  # the first process of each kind that was looked at

    def finished_steps(self) -> int:
        return max((int(row["step"]) for row in rows(self.output)), default=0)

    def saved_steps(self) -> int:
        """The newest step with a checkpoint."""
        return max((int(path.name.removeprefix("global_step")) for path in self.saves.glob("global_step*")), default=0)

    def scored(self, label_prefix: str = "") -> int:
        lines = self.calls.read_text().splitlines() if self.calls.exists() else []
        return sum(line.startswith(label_prefix) for line in lines)

    def process(self, kind: str) -> psutil.Process:
        """The newest process of that kind; the command itself is one."""
        title = KINDS[kind]
        if title is None:
            return psutil.Process(self.run.process.pid)
        found = self.processes(title)
        assert found, f"no {title} is alive"
        return found[-1]

    def processes(self, title: str) -> list[psutil.Process]:
        """Those below the command whose title begins like this, oldest first."""
        found = []
        for process in psutil.Process(self.run.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if " ".join(process.cmdline()).startswith(title):
                    found.append(process)
        return sorted(found, key=lambda process: process.create_time())

    def trainer_does(self) -> str:
        """The call that the trainer is at now, as Ray writes it into the title of its process; empty: none."""
        if "trainer" not in self.pids:
            self.pids["trainer"] = self.process("trainer").pid
        with contextlib.suppress(OSError):
            title = Path(f"/proc/{self.pids['trainer']}/cmdline").read_text().rstrip("\0 ")
            return title.partition(".")[2]
        return ""

    def is_updating(self, step: int, samples: int) -> bool:
        """Whether the rollout of `step` is over and its end not written down; it had so many samples, as all before."""
        return self.scored("train") == step * samples and self.finished_steps() == step - 1

    def wait_for(self, moment: Callable[["Watch"], bool], seconds: float = 540) -> None:
        deadline = time.monotonic() + seconds
        while not moment(self):
            assert self.run.process.poll() is None, self.run.stderr[-3000:]
            assert time.monotonic() < deadline, "the moment never came"
            time.sleep(0.002)

    def trained_samples(self) -> list[tuple[int, str]]:
        """(prompt_id, sample_id) of everything that was kept of the run's steps, if all samples are stored."""
        return [(row["prompt_id"], row["sample_id"]) for row in stored_samples(self.output / "rollouts")]

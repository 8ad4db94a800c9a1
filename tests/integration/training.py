"""Runs of the command as a user starts it: a process of its own, inputs on disk, exit code and streams to look at."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from openrlhf.cluster.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
MARK = "OPENRLHF_TEST_RUN"  # children inherit it, Ray's daemons and vLLM's core included
RUN_TIMEOUT = 540.0  # seconds for a run that ends by itself; alone it takes about one minute, starved it takes many
REWARD = """
def reward_func(queries, prompts, labels):
    # The share of digits in the response: some samples of a random model differ.
    return [sum(c.isdigit() for c in q[len(p):]) / max(1, len(q) - len(p)) for q, p in zip(queries, prompts)]
"""


@dataclass
class Inputs:
    """Everything that a run reads, in one folder."""

    folder: Path
    model: Path
    prompts: Path
    reward: Path

    def flags(self, output: Path, **changes: object) -> list[str]:
        """The flags of a small run on the CPU. `changes`: flags with `__` for the dot; None leaves one out."""
        flags = {
            "actor.model_name_or_path": self.model,
            "data.prompt_dataset": self.prompts,
            "data.label_key": "label",
            "data.max_len": 48,
            "reward.remote_url": self.reward,
            "algo.advantage.estimator": "reinforce_baseline",
            "algo.kl.init_coef": 0,
            "rollout.batch_size": 4,
            "rollout.n_samples_per_prompt": 4,
            "rollout.micro_batch_size": 4,
            "rollout.max_new_tokens": 8,
            "train.batch_size": 16,
            "train.micro_batch_size": 4,
            "actor.adam.lr": 1e-3,
            "ds.param_dtype": "fp32",
            "device": "cpu",
            "ckpt.output_dir": output,
        }
        flags |= {name.replace("__", "."): value for name, value in changes.items()}
        return [word for name, value in flags.items() if value is not None for word in (f"--{name}", *_words(value))]


def _words(value: object) -> list[str]:
    """What follows a flag: nothing for True, two words for a pair."""
    if value is True:
        return []
    return [str(part) for part in value] if isinstance(value, tuple) else [str(value)]


def write_inputs(folder: Path, model: Path, num_prompts: int = 8) -> Inputs:
    folder.mkdir(parents=True, exist_ok=True)
    rows = [{"input": f"count to {i}", "label": str(i)} for i in range(num_prompts)]
    (folder / "prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "reward.py").write_text(REWARD)
    return Inputs(folder, model, folder / "prompts.jsonl", folder / "reward.py")


@contextmanager
def marked_environment() -> Iterator[dict[str, str]]:
    """An environment whose processes can be told from all others, with a folder of its own for temporary files.

    Whatever is left of them at the end is killed: a failing test leaves nothing behind either.
    """
    mark = uuid.uuid4().hex
    folder = tempfile.mkdtemp(prefix="r", dir="/tmp")  # short: Ray puts sockets below it
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    path = f"{Path(sys.executable).parent}{os.pathsep}{environment['PATH']}"
    try:
        yield environment | {
            MARK: mark,
            "RAY_TMPDIR": folder,
            "TMPDIR": folder,
            "RAY_AUTH_MODE": "disabled",  # else `ray start` wants a token as soon as one lies in the home folder
            "PATH": path,
            "HF_HUB_OFFLINE": "1",
        }
    finally:
        left = marked(mark)
        for process in left:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(left, timeout=30)
        shutil.rmtree(folder, ignore_errors=True)


def marked(mark: str) -> list[psutil.Process]:
    """The living processes of one environment."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get(MARK) == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
            continue
    return found


def wait_until_gone(environment: dict[str, str], seconds: float = 30.0) -> list[str]:
    """The command lines of what is still alive after at most so many seconds; [] is what a test wants."""
    deadline = time.monotonic() + seconds
    while (left := marked(environment[MARK])) and time.monotonic() < deadline:
        time.sleep(0.2)
    lines = []
    for process in left:
        with contextlib.suppress(psutil.NoSuchProcess):
            lines.append(" ".join(process.cmdline())[:200])
    return lines


@dataclass
class Run:
    """A started command. Its streams go to files, which a full pipe cannot block."""

    process: subprocess.Popen[bytes]
    log: Path
    environment: dict[str, str]
    started: float = field(default_factory=time.monotonic)
    leftovers: list[str] = field(default_factory=list)  # in the folder for temporary files, after the end

    @property
    def stdout(self) -> str:
        return self.log.with_suffix(".out").read_text()

    @property
    def stderr(self) -> str:
        return self.log.with_suffix(".err").read_text()

    def errors(self) -> list[str]:
        """The lines of stderr, without the one of a busy machine."""
        late = "Ray's node did not come up in Ray's 30 s"
        return [line for line in self.stderr.splitlines() if line.strip() and late not in line]

    def wait(self, timeout: float = RUN_TIMEOUT) -> int:
        return self.process.wait(timeout)

    def signal_group(self, number: signal.Signals) -> None:
        """To every process of the group, as a terminal does for Ctrl-C, and `timeout` for its end."""
        os.killpg(self.process.pid, number)


def start(command: Sequence[str], log: Path, environment: dict[str, str], cwd: Path = ROOT) -> Run:
    with log.with_suffix(".out").open("wb") as out, log.with_suffix(".err").open("wb") as err:
        process = subprocess.Popen(
            command,
            env=environment,
            cwd=cwd,
            stdout=out,
            stderr=err,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            # Tests may themselves run in the background of a shell, where Ctrl-C is ignored; children inherit that.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
    return Run(process, log, environment)


def start_training(flags: Sequence[str], log: Path, environment: dict[str, str]) -> Run:
    return start([sys.executable, "-m", "openrlhf.cli.train_ppo_ray", *flags], log, environment)


def train(flags: Sequence[str], log: Path) -> Run:
    """Run the command to its end. Fails unless its processes end with it."""
    with marked_environment() as environment:
        run = start_training(flags, log, environment)
        run.wait()
        assert wait_until_gone(environment) == []
        run.leftovers = sorted(path.name for path in Path(environment["TMPDIR"]).iterdir())
    return run


def rows(output: Path) -> list[dict]:
    """metrics.jsonl of a run, as far as whole lines are written; a run that ended in its first step has none."""
    metrics = output / "metrics.jsonl"
    if not metrics.exists():
        return []
    lines = metrics.read_text().splitlines(keepends=True)
    return [json.loads(line) for line in lines if line.endswith("\n")]


def free_ports(count: int) -> list[int]:
    ports: set[int] = set()
    while len(ports) < count:
        ports.add(free_port())
    return list(ports)

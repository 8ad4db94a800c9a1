"""A run that is killed and resumed ends with bitwise the weights of a run that was left alone.

A kill point is a moment of the fourth step and a kind of process, ended by SIGKILL.
"""

import contextlib
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from tests.integration.training import Inputs, Run, marked_environment, rows, start_training, train, write_inputs
from tests.models import make_tiny_llama

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

# Every call leaves a line, so that a test can tell what the run is doing.
REWARD = """
def reward_func(queries, prompts, labels):
    with open({calls!r}, "a") as calls:
        calls.writelines(label + "\\n" for label in labels)
    return [sum(c.isdigit() for c in q[len(p):]) / max(1, len(q) - len(p)) for q, p in zip(queries, prompts)]
"""
STEPS, KILLED_IN = 6, 4
SAMPLES = 16  # of a step: 4 prompts, 4 samples each


@dataclass(frozen=True)
class Watch:
    """Where a run can be observed from outside."""

    calls: Path
    output: Path
    saves: Path
    run: Run

    def finished_steps(self) -> int:
        return max((int(row["step"]) for row in rows(self.output)), default=0)

    def scored(self, label_prefix: str = "") -> int:
        lines = self.calls.read_text().splitlines() if self.calls.exists() else []
        return sum(line.startswith(label_prefix) for line in lines)

    def process(self, title: str) -> psutil.Process | None:
        """The newest process below the command whose title begins like this."""
        found = []
        for process in psutil.Process(self.run.process.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                if " ".join(process.cmdline()).startswith(title):
                    found.append(process)
        return found[-1] if found else None


def generating(watch: Watch) -> bool:
    return watch.scored("train") > (KILLED_IN - 1) * SAMPLES


def training(watch: Watch) -> bool:
    return watch.scored("train") == KILLED_IN * SAMPLES and watch.finished_steps() == KILLED_IN - 1


def syncing(watch: Watch) -> bool:
    """Weights lie in shared memory for as long as they are on their way."""
    if not training(watch) or (policy := watch.process("ray::PolicyActor")) is None:
        return False
    with contextlib.suppress(OSError):
        folder = Path(f"/proc/{policy.pid}/fd")
        return any("memfd" in os.readlink(link) for link in folder.iterdir())
    return False


def saving(watch: Watch) -> bool:
    return (watch.saves / f".writing_global_step{KILLED_IN}").exists()


def evaluating(watch: Watch) -> bool:
    return watch.scored("held out") > (KILLED_IN - 1) * 2


MOMENTS: dict[str, Callable[[Watch], bool]] = {
    "generating": generating,
    "training": training,
    "syncing": syncing,
    "saving": saving,
    "evaluating": evaluating,
}
KINDS = {
    "driver": None,
    "trainer": "ray::PolicyActor",
    "engine": "ray::EngineActor",
    "engine core": "VLLM::EngineCore",
}
IN_CI = [("saving", "driver")]
ALL = [
    ("generating", "driver"),
    ("generating", "trainer"),
    ("generating", "engine"),
    ("generating", "engine core"),
    ("training", "driver"),
    ("training", "trainer"),
    ("training", "engine core"),
    ("syncing", "trainer"),
    ("syncing", "engine"),
    ("saving", "driver"),
    ("saving", "trainer"),
    ("evaluating", "driver"),
    ("evaluating", "engine"),
]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> Inputs:
    folder = tmp_path_factory.mktemp("inputs")
    made = write_inputs(folder, make_tiny_llama(folder / "model"), num_prompts=4 * STEPS)
    text = made.prompts.read_text().replace('"label": "', '"label": "train ')
    made.prompts.write_text(text)
    (folder / "held_out.jsonl").write_text('{"input": "say", "label": "held out"}\n')
    return made


def flags_of(inputs: Inputs, folder: Path, name: str, **more: object) -> list[str]:
    (folder / "reward.py").write_text(REWARD.format(calls=str(folder / "calls.txt")))
    return inputs.flags(
        folder / name,
        reward__remote_url=folder / "reward.py",
        eval__dataset=inputs.folder / "held_out.jsonl",
        eval__steps=1,
        eval__n_samples_per_prompt=2,
        train__full_determinism_enable=True,
        train__seed=1,
        ckpt__path=folder / "saves",
        ckpt__save_steps=1,
        ckpt__max_num=2,
        ckpt__best_metric_key="none",
        **more,
    )


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def uninterrupted(inputs, tmp_path_factory) -> bytes:
    folder = tmp_path_factory.mktemp("uninterrupted")
    run = train(flags_of(inputs, folder, "run"), folder / "log")
    assert run.process.returncode == 0, run.stderr[-3000:]
    return weights(folder / "run")


def kill_at(moment: str, kind: str, flags: list[str], folder: Path) -> Run:
    """Start the run, kill that process at that moment, and wait for the run to end."""
    title = KINDS[kind]
    with marked_environment() as environment:
        run = start_training(flags, folder / "killed", environment)
        watch = Watch(folder / "calls.txt", folder / "run", folder / "saves", run)
        deadline = time.monotonic() + 300
        while not MOMENTS[moment](watch):
            assert run.process.poll() is None, run.stderr[-3000:]
            assert time.monotonic() < deadline, f"never came to the moment of {moment}"
            time.sleep(0.002)
        victim = run.process if title is None else watch.process(title)
        assert victim is not None
        victim.kill()
        run.wait()
    return run


@pytest.mark.parametrize(
    ("moment", "kind"),
    [
        pytest.param(*point, marks=() if point in IN_CI else pytest.mark.slow, id=" ".join(point).replace(" ", "-"))
        for point in ALL
    ],
)
def test_a_killed_run_goes_on_as_if_nothing_had_happened(moment, kind, inputs, uninterrupted, tmp_path):
    flags = flags_of(inputs, tmp_path, "run")
    killed = kill_at(moment, kind, flags, tmp_path)
    assert killed.process.returncode != 0
    if kind != "driver":  # the run itself is alive to say what it lost
        (line,) = [line for line in killed.stderr.splitlines() if line.startswith("error:")]
        assert "died" in line or "dead" in line, line
    resumed = train([*flags, "--ckpt.load_enable"], tmp_path / "resumed")
    assert resumed.process.returncode == 0, resumed.stderr[-3000:]
    assert "resumed from the checkpoint of step" in resumed.stderr
    assert [row["step"] for row in rows(tmp_path / "run")] == [1, 2, 3, 4, 5, 6]
    assert weights(tmp_path / "run") == uninterrupted

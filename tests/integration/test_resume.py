"""A run that is killed goes on as if nothing had happened: resumed where the command or a trainer was killed, by itself
where an engine was. Synchronous runs end with bitwise the weights of a run that was left alone; asynchronous ones train
the same prompts, each once.

A kill point is a moment of the fourth step and a kind of process, ended by SIGKILL.
"""

import contextlib
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tests.integration.training import Inputs, Run, marked_environment, rows, start_training, train, write_inputs
from tests.integration.watching import REWARD, Watch, story
from tests.models import make_tiny_llama
from tests.proofs import keep

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]

STEPS, KILLED_IN = 6, 4
SAMPLES = 16  # of a step: 4 prompts, 4 samples each


def generating(watch: Watch) -> bool:
    return watch.scored("train") > (KILLED_IN - 1) * SAMPLES


def queueing(watch: Watch) -> bool:
    """Finished groups wait in the buffer of an asynchronous run."""
    return watch.finished_steps() >= 2 and watch.scored("train") >= (watch.finished_steps() + 1) * SAMPLES + 4


def training(watch: Watch) -> bool:
    return watch.is_updating(KILLED_IN, SAMPLES) and watch.trainer_does() == "train_step"


def syncing(watch: Watch) -> bool:
    """The engine's core, which is stopped before, has not taken the weights that the trainer has sent."""
    watch.wait_for(training)
    core = watch.process("engine core")
    core.suspend()
    idle_since = time.monotonic()
    while time.monotonic() - idle_since < 1:
        if watch.trainer_does():
            idle_since = time.monotonic()
        time.sleep(0.002)
    return watch.is_updating(KILLED_IN, SAMPLES)


def saving(watch: Watch) -> bool:
    """Or the next step's: a save lasts a tenth of a second, which a busy machine may spend elsewhere."""
    return any((watch.saves / f".writing_global_step{step}").exists() for step in range(KILLED_IN, STEPS))


def evaluating(watch: Watch) -> bool:
    return watch.scored("held out") > (KILLED_IN - 1) * 2


MOMENTS: dict[str, Callable[[Watch], bool]] = {
    "generating": generating,
    "queueing": queueing,
    "training": training,
    "syncing": syncing,
    "saving": saving,
    "evaluating": evaluating,
}
RESUMED = [
    ("generating", "driver"),
    ("generating", "trainer"),
    ("training", "driver"),
    ("training", "trainer"),
    ("syncing", "trainer"),
    ("saving", "driver"),
    ("saving", "trainer"),
    ("evaluating", "driver"),
]
REPLACED = [
    ("generating", "engine"),
    ("generating", "engine core"),
    ("training", "engine core"),
    ("syncing", "engine core"),
    ("evaluating", "engine"),
]
ASYNC = [("queueing", "driver"), ("queueing", "trainer"), ("queueing", "engine core")]
IN_CI = [("saving", "driver"), ("generating", "engine core"), ("queueing", "engine core")]


def points(of: list[tuple[str, str]]) -> list[object]:
    return [
        pytest.param(*point, marks=() if point in IN_CI else pytest.mark.slow, id=" ".join(point).replace(" ", "-"))
        for point in of
    ]


@pytest.fixture(scope="module")
def inputs(tmp_path_factory) -> Inputs:
    folder = tmp_path_factory.mktemp("inputs")
    made = write_inputs(folder, make_tiny_llama(folder / "model"), num_prompts=4 * STEPS)
    text = made.prompts.read_text().replace('"label": "', '"label": "train ')
    made.prompts.write_text(text)
    (folder / "held_out.jsonl").write_text('{"input": "say", "label": "held out"}\n')
    return made


def flags_of(inputs: Inputs, folder: Path, **more: object) -> list[str]:
    (folder / "reward.py").write_text(REWARD.format(calls=str(folder / "calls.txt")))
    common: dict[str, object] = {
        "reward__remote_url": folder / "reward.py",
        "train__seed": 1,
        "logger__num_rollouts_stored": 99,
        "ckpt__path": folder / "saves",
        "ckpt__save_steps": 1,
        "ckpt__max_num": 2,
        "ckpt__best_metric_key": "none",
    }
    return inputs.flags(folder / "run", **common | more)


def repeatable(inputs: Inputs, folder: Path) -> list[str]:
    evaluation = {"eval__dataset": inputs.folder / "held_out.jsonl", "eval__n_samples_per_prompt": 2, "eval__steps": 1}
    return flags_of(inputs, folder, train__full_determinism_enable=True, **evaluation)


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def uninterrupted(inputs, tmp_path_factory) -> bytes:
    folder = tmp_path_factory.mktemp("uninterrupted")
    run = train(repeatable(inputs, folder), folder / "log")
    assert run.process.returncode == 0, run.stderr[-3000:]
    return weights(folder / "run")


def kill_at(moment: str, kind: str, flags: list[str], folder: Path) -> Run:
    """Start the run, kill that process at that moment, and wait for the run to end."""
    with marked_environment() as environment:
        run = start_training(flags, folder / "killed", environment)
        watch = Watch(folder / "calls.txt", folder / "run", folder / "saves", run)
        watch.wait_for(MOMENTS[moment])
        watch.process(kind).kill()
        for core in watch.processes("VLLM::EngineCore"):
            with contextlib.suppress(psutil.NoSuchProcess):
                core.resume()
        run.wait()
    return run


def resume(flags: list[str], killed: Run, kind: str, folder: Path) -> Run:
    assert killed.process.returncode != 0
    if kind != "driver":  # the run itself is alive to say what it lost
        (line,) = [line for line in killed.stderr.splitlines() if line.startswith("error:")]
        assert "policy rank 0 died" in line, line
        assert "--ckpt.load_enable goes on after step" in killed.stderr
    resumed = train([*flags, "--ckpt.load_enable"], folder / "resumed")
    assert resumed.process.returncode == 0, resumed.stderr[-3000:]
    assert "resumed from the checkpoint of step" in resumed.stderr
    return resumed


def keep_outcome(moment: str, kind: str, folder: Path, runs: list[Run], outcome: str) -> None:
    """What the runs said on stderr, and how it ended."""
    lines = [f"{run.log.name}: exit code {run.process.returncode}\n" + "\n".join(story(run, folder)) for run in runs]
    file = folder / "outcome.txt"
    file.write_text("\n".join([f"SIGKILL: {kind}, {moment}", *lines, outcome, ""]))
    keep(f"kill_points/{moment} {kind}".replace(" ", "_"), [file])


@pytest.mark.parametrize(("moment", "kind"), points(RESUMED))
def test_a_killed_run_goes_on_as_if_nothing_had_happened(moment, kind, inputs, uninterrupted, tmp_path):
    flags = repeatable(inputs, tmp_path)
    killed = kill_at(moment, kind, flags, tmp_path)
    resumed = resume(flags, killed, kind, tmp_path)
    assert [row["step"] for row in rows(tmp_path / "run")] == [1, 2, 3, 4, 5, 6]
    assert weights(tmp_path / "run") == uninterrupted
    keep_outcome(moment, kind, tmp_path, [killed, resumed], "weights equal those of an uninterrupted run, bit for bit")


@pytest.mark.parametrize(("moment", "kind"), points(REPLACED))
def test_a_killed_engine_is_replaced_and_the_run_never_knows(moment, kind, inputs, uninterrupted, tmp_path):
    run = kill_at(moment, kind, repeatable(inputs, tmp_path), tmp_path)
    assert run.process.returncode == 0, run.stderr[-3000:]
    assert "restarting it (1 of 3)" in run.stderr
    assert [row["step"] for row in rows(tmp_path / "run")] == [1, 2, 3, 4, 5, 6]
    assert weights(tmp_path / "run") == uninterrupted
    keep_outcome(moment, kind, tmp_path, [run], "weights equal those of an uninterrupted run, bit for bit")


@pytest.mark.parametrize(("moment", "kind"), points(ASYNC))
def test_an_asynchronous_run_that_is_killed_trains_every_prompt_once(moment, kind, inputs, tmp_path):
    flags = flags_of(inputs, tmp_path, train__async_enable=True, train__async_queue_size=2)
    killed = kill_at(moment, kind, flags, tmp_path)
    runs = [killed]
    if kind.startswith("engine"):
        assert killed.process.returncode == 0, killed.stderr[-3000:]
        assert "restarting it (1 of 3)" in killed.stderr
    else:
        runs.append(resume(flags, killed, kind, tmp_path))
    steps = rows(tmp_path / "run")
    assert [row["step"] for row in steps] == [1, 2, 3, 4, 5, 6]
    assert (steps[-1]["ledger/trained"], steps[-1]["ledger/drawn_total"]) == (4 * STEPS, 4 * STEPS)
    trained = Watch(tmp_path / "calls.txt", tmp_path / "run", tmp_path / "saves", killed).trained_samples()
    assert Counter(prompt_id for prompt_id, _ in trained) == dict.fromkeys(range(4 * STEPS), 4)
    assert len({sample_id for _, sample_id in trained}) == STEPS * SAMPLES
    keep_outcome(moment, kind, tmp_path, runs, f"{4 * STEPS} prompts, each trained on once")

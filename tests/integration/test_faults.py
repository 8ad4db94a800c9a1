"""Faults put into whole runs: each run either recovers, or stops with one line that names the cause, and with a
checkpoint that it goes on from. None outlasts its time.
"""

import json
import resource
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest

from tests.integration.training import Inputs, Run, marked_environment, rows, start_training, train, wait_until_gone
from tests.integration.training import write_inputs as make_inputs
from tests.integration.watching import REWARD, Watch, story
from tests.models import make_tiny_llama
from tests.proofs import keep

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]

STEPS, SAMPLES = 10, 16  # 4 prompts of 4 samples each per step
ASYNC = {"train__async_enable": True, "train__async_queue_size": 2}
LONGEST = 540  # seconds for a run that ends by itself, timeouts included: a starved machine takes many minutes
EVERY_STEP, NEVER_BY_ITSELF = 1, 100  # ckpt.save_steps
FULL = 100_000  # bytes that a file may have on the disk that is full; the model has more


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return make_tiny_llama(tmp_path_factory.mktemp("model") / "model")


@pytest.fixture
def inputs(model, tmp_path) -> Inputs:
    made = make_inputs(tmp_path / "inputs", model, num_prompts=4 * STEPS)
    made.prompts.write_text(made.prompts.read_text().replace('"label": "', '"label": "train '))
    made.reward.write_text(REWARD.format(calls=str(tmp_path / "calls.txt")))
    return made


@pytest.fixture
def flags(inputs, tmp_path):
    """flags(changes): of a run that saves its checkpoints beside its folder."""

    def make(save_steps: int = EVERY_STEP, **changes: object) -> list[str]:
        saving = {"ckpt__path": tmp_path / "saves", "ckpt__save_steps": save_steps, "ckpt__best_metric_key": "none"}
        return inputs.flags(tmp_path / "run", logger__num_rollouts_stored=99, **saving | changes)

    return make


class Faulty:
    """A run, and what happens to it on its way."""

    def __init__(self, flags: list[str], folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self.run = start_training(flags, folder / "faulty", environment)
        self.watch = Watch(folder / "calls.txt", folder / "run", folder / "saves", self.run)
        self._saves = flags[flags.index("--ckpt.save_steps") + 1] == str(EVERY_STEP)

    def after_step(self, step: int) -> None:
        """Wait until so many steps are over, and saved, where they are: a row is written before its checkpoint."""
        self.watch.wait_for(lambda watch: watch.finished_steps() >= step)
        if self._saves:
            self.watch.wait_for(lambda watch: watch.saved_steps() >= step)

    def generating(self, step: int) -> None:
        """Wait until a sample of this step is done."""
        self.watch.wait_for(lambda watch: watch.scored("train") > (step - 1) * SAMPLES)

    def training(self, step: int) -> None:
        self.watch.wait_for(lambda watch: watch.is_updating(step, SAMPLES) and watch.trainer_does() == "train_step")

    def ends(self, environment: dict[str, str]) -> Run:
        self.run.wait(LONGEST)
        assert wait_until_gone(environment) == []
        return self.run


@pytest.fixture
def faulty(tmp_path):
    """`with faulty(flags) as fault`: the run has started; at the end of the block it is waited for."""

    @contextmanager
    def start(flags: list[str]) -> Iterator[Faulty]:
        with marked_environment() as environment:
            fault = Faulty(flags, tmp_path, environment)
            yield fault
            fault.ends(environment)

    return start


def recovered(fault: Faulty, *lines: str) -> None:
    """The run went on to its end, said these lines, and trained every prompt once."""
    run, watch = fault.run, fault.watch
    assert run.process.returncode == 0, run.stderr[-3000:]
    for line in lines:
        assert line in run.stderr, run.stderr[-3000:]
    steps = rows(watch.output)
    assert [row["step"] for row in steps] == list(range(1, STEPS + 1))
    assert (steps[-1]["ledger/trained"], steps[-1]["ledger/drawn_total"]) == (4 * STEPS, 4 * STEPS)
    trained = watch.trained_samples()
    assert Counter(prompt_id for prompt_id, _ in trained) == dict.fromkeys(range(4 * STEPS), 4)
    assert len({sample_id for _, sample_id in trained}) == STEPS * SAMPLES
    keep_outcome(fault, "recovered")


def stopped(fault: Faulty, cause: str, step: int, code: int = 1) -> None:
    """The run ended with one line that names the cause, and said where it can be resumed: after this step."""
    run = fault.run
    assert run.process.returncode == code, run.stderr[-3000:]
    if code == 1:
        (line,) = [line for line in run.stderr.splitlines() if line.startswith("error: ")]
        assert cause in line, line
    else:
        assert cause in run.stderr, run.stderr
    assert "--ckpt.load_enable goes on" in run.stderr
    saved = json.loads((fault.watch.saves / f"global_step{step}" / "checkpoint.json").read_text())
    assert saved["step"] == step
    keep_outcome(fault, f"stopped; resumes after step {step}")


def keep_outcome(fault: Faulty, outcome: str) -> None:
    name = fault.folder.name.rstrip("0123456789")  # pytest's folder of this test
    lines = story(fault.run, fault.folder)
    seconds = time.monotonic() - fault.run.started
    file = fault.folder / "outcome.txt"
    file.write_text("\n".join([*lines, f"exit code {fault.run.process.returncode}: {outcome}, {seconds:.0f} s", ""]))
    keep(f"faults/{name}", [file])


def resumes(flags: list[str], folder: Path, failed: int = 0) -> None:
    """The run that was stopped goes on to its end. Every prompt was trained on once, but for those that had lost their
    samples' verdicts when it was saved."""
    run = train([*flags, "--ckpt.load_enable"], folder / "resumed")
    assert run.process.returncode == 0, run.stderr[-3000:]
    last = rows(folder / "run")[-1]
    settled = last["ledger/trained"] + last["ledger/failed"]
    assert (last["step"], settled, last["ledger/drawn_total"]) == (STEPS, 4 * STEPS, 4 * STEPS)
    assert last["ledger/failed"] <= failed


class Grader(BaseHTTPRequestHandler):
    """A reward server with a switch: `status` other than 200 is what it answers to everything."""

    status: int
    calls: Path

    def do_POST(self) -> None:
        payload = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.status != 200:
            self.send_error(self.status, "out of order")
            return
        with self.calls.open("a") as calls:
            calls.write(payload["labels"][0] + "\n")
        body = json.dumps({"rewards": [sum(map(str.isdigit, payload["query"][0]))]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Silent."""


@pytest.fixture
def grader(tmp_path) -> Iterator[tuple[str, type[Grader]]]:
    """Address of the server, and its switch."""
    switch = type("OwnGrader", (Grader,), {"status": 200, "calls": tmp_path / "calls.txt"})
    server = ThreadingHTTPServer(("127.0.0.1", 0), switch)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/get_reward", switch
    server.shutdown()
    server.server_close()


@pytest.mark.slow
def test_an_engine_core_dies_and_then_the_reward_server_is_out_of_order_for_good(flags, faulty, grader, tmp_path):
    """Asynchronous. The first is mended; the second ends the run, which is saved though no save was due."""
    address, switch = grader
    changes = flags(NEVER_BY_ITSELF, reward__remote_url=address, reward__abort_after=6, **ASYNC)
    with faulty(changes) as fault:
        fault.generating(1)
        fault.watch.process("engine core").kill()
        fault.after_step(2)
        switch.status = 503
    assert "restarting it (1 of 3)" in fault.run.stderr
    assert "status 503" in fault.run.stderr
    (saved,) = fault.watch.saves.glob("global_step*")
    stopped(fault, "6 samples in a row got no verdict (--reward.abort_after 6)", int(saved.name[11:]))
    switch.status = 200
    resumes(changes, tmp_path, failed=4)  # at most the last batch before the end


@pytest.mark.slow
def test_an_engine_process_dies_while_groups_are_filtered(flags, faulty, inputs):
    """Synchronous, with dynamic filtering in the middle of a rollout; the filter lets every group pass."""
    with faulty(flags(algo__dynamic_filtering_enable=True, algo__dynamic_filtering_range=(-1, 2))) as fault:
        fault.generating(2)
        fault.watch.process("engine").kill()
    recovered(fault, "vLLM engine 0 died", "restarting it (1 of 3)")


@pytest.mark.slow
def test_an_engine_split_over_two_workers_dies(flags, faulty):
    """Its core and its workers go with it: the memory is needed by the one that takes its place."""
    with faulty(flags(vllm__tensor_parallel_size=2)) as fault:
        fault.generating(2)
        engine = fault.watch.process("engine")
        rest = engine.children(recursive=True)
        assert len([process for process in fault.watch.processes("VLLM::Worker_TP") if process in rest]) == 2
        engine.kill()
        _, alive = psutil.wait_procs(rest, timeout=30)
        assert alive == []
    recovered(fault, "vLLM engine 0 died", "restarting it (1 of 3)")


@pytest.mark.slow
def test_a_reward_function_that_ends_its_process_takes_the_engine_along_until_it_is_given_up(
    flags, faulty, inputs, tmp_path
):
    poison = REWARD.format(calls=str(tmp_path / "calls.txt")).replace(
        "    return", '    if labels[0] == "train 5":\n        import os\n        os._exit(1)\n    return'
    )
    healthy = inputs.reward.read_text()
    inputs.reward.write_text(poison)
    changes = flags(NEVER_BY_ITSELF, vllm__max_restarts=1, rollout__batch_size=2, train__batch_size=8)
    with faulty(changes) as fault:
        pass
    assert fault.run.process.returncode == 1
    done = max((int(row["step"]) for row in rows(fault.watch.output)), default=0)
    assert "restarting it (1 of 1)" in fault.run.stderr
    if done == 0:  # the poisoned prompt came in the first step
        assert "there is no checkpoint" in fault.run.stderr
        return
    stopped(fault, "vLLM engine 0 is lost, after 1 restarts (--vllm.max_restarts)", done)
    inputs.reward.write_text(healthy)
    run = train([*changes, "--ckpt.load_enable"], tmp_path / "resumed")
    assert run.process.returncode == 0, run.stderr[-3000:]
    assert rows(tmp_path / "run")[-1]["ledger/trained"] == 4 * STEPS


@pytest.mark.slow
def test_a_trainer_rank_dies(flags, faulty, tmp_path):
    changes = flags(actor__num_gpus_per_node=2, train__micro_batch_size=2)
    with faulty(changes) as fault:
        fault.training(3)
        fault.watch.processes("ray::PolicyActor")[-1].kill()
    stopped(fault, "died during 'train step'", 2)
    assert "error: policy rank" in fault.run.stderr
    resumes(changes, tmp_path)


@pytest.mark.slow
def test_a_trainer_hangs(flags, faulty, tmp_path):
    changes = flags()
    with faulty([*changes, "--cluster.train_timeout", "40"]) as fault:
        fault.training(3)
        fault.watch.process("trainer").suspend()
    stopped(fault, "policy rank 0 did not finish 'train step' within 40 s", 2)
    resumes(changes, tmp_path)


@pytest.mark.slow
def test_an_engine_core_hangs(flags, faulty, tmp_path):
    changes = flags(NEVER_BY_ITSELF)
    with faulty([*changes, "--cluster.rollout_timeout", "40"]) as fault:
        fault.after_step(2)
        fault.watch.process("engine core").suspend()
    assert fault.run.process.returncode == 1, fault.run.stderr
    (saved,) = fault.watch.saves.glob("global_step*")
    cause = "vLLM engine 0 did not finish 'rollout' within 40 s" if saved.name == "global_step2" else "vLLM engine 0"
    stopped(fault, cause, int(saved.name[11:]))
    resumes(changes, tmp_path)


@pytest.mark.slow
def test_the_reward_server_is_out_of_order_for_a_moment(flags, faulty, grader):
    address, switch = grader
    with faulty(flags(reward__remote_url=address)) as fault:
        fault.after_step(1)
        switch.status = 503
        time.sleep(2)  # less than the client's tries take
        switch.status = 200
    recovered(fault)


@pytest.mark.slow
def test_the_disk_is_full_for_one_checkpoint(flags, faulty):
    with faulty(flags(ckpt__max_num=2 * STEPS)) as fault:
        fault.after_step(1)
        trainer = fault.watch.process("trainer")
        before = trainer.rlimit(resource.RLIMIT_FSIZE)
        trainer.rlimit(resource.RLIMIT_FSIZE, (FULL, before[1]))
        fault.watch.wait_for(lambda watch: "is kept" in watch.run.stderr)
        trainer.rlimit(resource.RLIMIT_FSIZE, before)
    recovered(fault, "checkpoint of step")
    kept = {path.name for path in fault.watch.saves.glob("global_step*")}
    assert len(kept) < STEPS
    assert f"global_step{STEPS}" in kept


@pytest.mark.slow
def test_a_scheduler_ends_the_run(flags, faulty, tmp_path):
    """It tells the whole process group, as `timeout` does."""
    changes = flags(NEVER_BY_ITSELF, **ASYNC)
    with faulty(changes) as fault:
        fault.after_step(2)
        fault.run.signal_group(signal.SIGTERM)
    (saved,) = fault.watch.saves.glob("global_step*")
    stopped(fault, "terminated", int(saved.name[11:]), code=128 + signal.SIGTERM)
    resumes(changes, tmp_path)


@pytest.mark.slow
def test_a_reward_function_raises(flags, faulty, inputs, tmp_path):
    changes = flags(NEVER_BY_ITSELF)
    broken = tmp_path / "broken"
    healthy = inputs.reward.read_text()
    check = f'    import pathlib\n    if pathlib.Path({str(broken)!r}).exists():\n        raise KeyError("gone")\n'
    inputs.reward.write_text(healthy.replace("    return", f"{check}    return"))
    with faulty(changes) as fault:
        fault.after_step(2)
        broken.touch()
    (saved,) = fault.watch.saves.glob("global_step*")
    stopped(fault, "raised KeyError: 'gone'", int(saved.name[11:]))
    broken.unlink()
    resumes(changes, tmp_path)


@pytest.mark.slow
def test_the_newest_checkpoint_is_damaged(flags, faulty, tmp_path):
    """A resume says so instead of going on from half of it; once it is removed, the one before is resumed from."""
    changes = flags(train__max_steps=2)
    with faulty(changes) as fault:
        pass
    assert fault.run.process.returncode == 0, fault.run.stderr[-3000:]
    damaged = fault.watch.saves / "global_step2"
    (file,) = damaged.rglob("*model_states.pt")
    file.write_bytes(file.read_bytes()[:1000])
    refused = train([*changes, "--ckpt.load_enable"], tmp_path / "refused")
    assert refused.process.returncode == 1
    (line,) = [line for line in refused.stderr.splitlines() if line.startswith("error: ")]
    assert "the checkpoint of step 2" in line
    assert "cannot be loaded" in line
    damaged.rename(tmp_path / "damaged")
    resumes(flags(), tmp_path)

"""How a run ends when it cannot go on: one clear line, an exit code, and no process left behind."""

import signal
import time

import pytest

from tests.integration.training import (
    Inputs,
    Run,
    free_ports,
    marked_environment,
    rows,
    start_training,
    train,
    wait_until_gone,
    write_inputs,
)
from tests.models import make_tiny_llama

pytestmark = [pytest.mark.engine, pytest.mark.timeout(400)]
SECONDS = 200  # bound for a refusal before anything starts, on a busy machine; a few on an idle one
BLOCKING_REWARD = """
import pathlib, time

def reward_func(queries, prompts, labels):
    pathlib.Path(__file__).with_name("scoring").touch()
    time.sleep(600)
"""
RAISING_REWARD = """
import pathlib

def reward_func(queries, prompts, labels):
    if "seven" in prompts[0]:
        raise KeyError("no answer for seven")
    print("graded one", flush=True)
    return [1.0]
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return make_tiny_llama(tmp_path_factory.mktemp("model"))


@pytest.fixture
def inputs(model, tmp_path) -> Inputs:
    return write_inputs(tmp_path / "inputs", model)


def only_line(run: Run) -> str:
    """The one line of stderr; fails on a traceback or any other noise."""
    lines = run.errors()
    assert len(lines) == 1, run.stderr
    return lines[0]


@pytest.mark.parametrize(
    ("number", "code", "word"),
    [
        (signal.SIGINT, 130, "interrupted"),
        pytest.param(signal.SIGTERM, 143, "terminated", marks=pytest.mark.slow),
    ],
)
def test_a_signal_during_a_rollout_ends_every_process(inputs, tmp_path, number, code, word):
    inputs.reward.write_text(BLOCKING_REWARD)
    with marked_environment() as environment:
        run = start_training(inputs.flags(tmp_path / "run"), tmp_path / "log", environment)
        while not (inputs.folder / "scoring").exists():
            assert run.process.poll() is None, run.stderr + run.stdout
            time.sleep(0.1)
        if number == signal.SIGINT:
            run.signal_group(number)
            time.sleep(0.5)
            run.signal_group(number)  # the impatient user
        else:
            run.process.send_signal(number)
        assert run.wait(90) == code, run.stderr
        assert wait_until_gone(environment) == []
    assert only_line(run) == word


def refused(inputs: Inputs, tmp_path, expected_code: int, environment: dict[str, str] | None = None, **changes) -> str:
    """The one line of a run that is refused before anything starts."""
    with marked_environment() as own:
        run = start_training(inputs.flags(tmp_path / "run", **changes), tmp_path / "log", own | (environment or {}))
        code = run.wait(SECONDS)
        assert wait_until_gone(own) == []
    assert code == expected_code, run.stderr
    assert run.stdout == ""
    return only_line(run)


def test_a_model_path_that_does_not_exist(inputs, tmp_path):
    line = refused(inputs, tmp_path, 2, actor__model_name_or_path=tmp_path / "nowhere")
    assert line == f"error: --actor.model_name_or_path {tmp_path / 'nowhere'}: no such folder"


def test_an_unreadable_dataset(inputs, tmp_path):
    inputs.prompts.write_text('{"input": "one", "label": "1"}\n{"input": "two", "lab\n')
    line = refused(inputs, tmp_path, 2)
    assert line.startswith("error: ")
    assert str(inputs.prompts) in line
    assert "2" in line.replace(str(inputs.prompts), "")  # the number of the bad line


def test_a_reward_file_without_reward_func(inputs, tmp_path):
    inputs.reward.write_text("def score(queries, prompts, labels):\n    return [1.0]\n")
    line = refused(inputs, tmp_path, 2)
    assert str(inputs.reward) in line
    assert "reward_func" in line


def test_an_output_folder_that_holds_files(inputs, tmp_path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run/precious.txt").write_text("mine")
    line = refused(inputs, tmp_path, 2)
    assert str(tmp_path / "run") in line
    assert "--ckpt.overwrite" in line
    assert (tmp_path / "run/precious.txt").read_text() == "mine"


def test_a_ray_cluster_that_is_announced_and_gone(inputs, tmp_path):
    line = refused(inputs, tmp_path, 1, {"RAY_ADDRESS": "127.0.0.1:1"})
    assert line.startswith("error: no Ray answers at ")  # Ray writes the host as this node's address
    assert ":1: " in line
    assert "RAY_ADDRESS" in line


@pytest.mark.slow
def test_a_reward_function_that_raises_ends_the_run(inputs, tmp_path):
    inputs.reward.write_text(RAISING_REWARD)
    inputs.prompts.write_text('{"input": "one", "label": "1"}\n{"input": "seven", "label": "7"}\n')
    flags = inputs.flags(tmp_path / "run", rollout__batch_size=1, train__batch_size=4, train__num_episodes=2)
    run = train(flags, tmp_path / "log")
    assert run.process.returncode == 1
    line = only_line(run)
    assert line.startswith(f"error: reward_func in {inputs.reward} raised KeyError: 'no answer for seven'")
    assert f"{inputs.reward}:6" in line
    # The prompt "one" came first or second in the episode; what the function printed is shown either way.
    assert len(rows(tmp_path / "run")) == (1 if "graded one" in run.stdout else 0)


@pytest.mark.slow
def test_a_reward_server_that_is_down_ends_the_run_where_asked(inputs, tmp_path):
    address = f"http://127.0.0.1:{free_ports(1)[0]}/get_reward"
    run = train(inputs.flags(tmp_path / "run", reward__remote_url=address, reward__ungraded="abort"), tmp_path / "log")
    assert run.process.returncode == 1
    *warnings, line = run.errors()
    assert line.startswith("error: ")
    assert address in line
    assert "no verdict" in line
    assert "--reward.ungraded" in line
    # The engine's own warning about the first such sample comes before.
    assert all("a sample is ungraded" in warning for warning in warnings)

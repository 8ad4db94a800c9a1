"""What a worker sets before anything else runs."""

import os

import pytest
import torch

from openrlhf.train.context import WorkerContext


@pytest.fixture(autouse=True)
def _undo(monkeypatch):
    for name in ("MASTER_ADDR", "MASTER_PORT", "RANK", "WORLD_SIZE", "LOCAL_RANK", "DS_ACCELERATOR"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", "")
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)
    torch.use_deterministic_algorithms(False)


def test_environment() -> None:
    WorkerContext(rank=1, world_size=2, master_addr="10.0.0.1", master_port=1234).apply()
    assert os.environ["MASTER_ADDR"] == "10.0.0.1"
    assert os.environ["MASTER_PORT"] == "1234"
    assert (os.environ["RANK"], os.environ["WORLD_SIZE"]) == ("1", "2")
    assert os.environ["DS_ACCELERATOR"] == "cpu"


def test_the_seed_fixes_the_random_numbers() -> None:
    def draw(seed: int) -> float:
        WorkerContext(seed=seed).apply()
        return float(torch.rand(()))

    assert draw(1) == draw(1) != draw(2)


def test_full_determinism_asks_torch_for_it() -> None:
    WorkerContext().apply()
    assert not torch.are_deterministic_algorithms_enabled()
    WorkerContext().apply(full_determinism=True)
    assert torch.are_deterministic_algorithms_enabled()


def test_processes_of_a_machine_share_its_cores() -> None:
    WorkerContext(world_size=10_000).apply()
    assert torch.get_num_threads() == 1

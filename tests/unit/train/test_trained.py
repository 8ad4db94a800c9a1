"""What every trained model does beside training, over a backend that only keeps what it is given."""

import json
import logging

import pytest
import torch

from openrlhf.train import trained
from openrlhf.train.schedule import LearningRate
from openrlhf.train.trained import TrainedModel


class Kept:
    """A backend whose checkpoints are what it was given."""

    model = None

    def save(self, folder, extra) -> None:
        folder.mkdir()
        (folder / "extra.json").write_text(json.dumps(extra))

    def load(self, folder):
        return json.loads((folder / "extra.json").read_text())


def model(total_steps: int, rank: int = 0) -> TrainedModel:
    made = object.__new__(TrainedModel)  # without DeepSpeed
    made._role, made._rank, made._backend, made._texts = "actor", rank, Kept(), None
    made._schedule = LearningRate("linear", 1.0, total_steps)
    made.optimiser_steps = 0
    return made


@pytest.mark.parametrize(
    ("router", "others", "common"),
    [(torch.float32, torch.bfloat16, torch.bfloat16), (torch.float32, torch.float32, torch.float32)],
)
def test_the_dtype_of_the_weights_is_that_of_most(router, others, common):
    made = model(1)
    made._backend.model = torch.nn.ModuleList(
        [torch.nn.Linear(2, 2, dtype=router), torch.nn.Linear(2, 2, dtype=others)]
    )
    assert made.dtype == common


@pytest.mark.parametrize(("rank", "said"), [(0, 1), (1, 0)])
def test_a_longer_schedule_is_said_once_when_a_run_goes_on(tmp_path, caplog, rank, said):
    first = model(20, rank)
    first.optimiser_steps = 10
    first.save(tmp_path / "saved")
    longer = model(40, rank)
    with caplog.at_level(logging.WARNING):
        longer.load(tmp_path / "saved")
    assert longer.optimiser_steps == 10
    assert caplog.text.count("actor: the learning-rate schedule linear has 40 optimiser steps now, and 20") == said


def test_an_export_that_fails_leaves_no_half_model(tmp_path, monkeypatch):
    def half(model, weights, texts, folder, renamed) -> None:
        (folder / "config.json").write_text("{}")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(trained, "save_hf", half)
    with pytest.raises(OSError, match="No space left"):
        model(1)._export(iter([("w", torch.ones(1))]), tmp_path)
    assert list(tmp_path.iterdir()) == []

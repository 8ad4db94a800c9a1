"""The critic on two gloo ranks against plain torch: gradients, AdamW, checkpoints, exports."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, LlamaForSequenceClassification

from openrlhf.models.value import TokenValues
from openrlhf.rl.losses.value_loss import value_loss
from openrlhf.rl.metrics import finalize, merge
from openrlhf.train.critic import value_streams
from openrlhf.train.forward import token_values
from openrlhf.train.step import add_up
from tests.batches import micro_batches
from tests.fakes import TorchBackend
from tests.integration.ranks import run
from tests.integration.role_worker import CRITIC_STAGES, VALUE_CLIP, critic_experience
from tests.integration.train_worker import LAYOUTS, LENGTHS
from tests.models import make_tiny_tokenizer, tiny_llama_config

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def critic_path(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("critic")
    config = tiny_llama_config(hidden_size=64)
    config.num_labels, config.initializer_range = 1, 0.1
    torch.manual_seed(0)
    LlamaForSequenceClassification(config).save_pretrained(folder)
    make_tiny_tokenizer().save_pretrained(folder)
    return folder


def plain_critic(path: Path) -> TorchBackend:
    return TorchBackend(TokenValues(AutoModelForSequenceClassification.from_pretrained(path, dtype=torch.float32)))


def accumulate(critic: TorchBackend):
    (batch,) = micro_batches(critic_experience(), [list(range(len(LENGTHS)))])

    def loss_of(one):
        return value_loss(value_streams(one, token_values(critic, one, "packed")), one.totals, VALUE_CLIP)

    return finalize(add_up(critic, [batch], loss_of))


@pytest.mark.slow
def test_the_critic_is_the_same_over_ranks_stages_and_layouts_and_resumes(critic_path, tmp_path) -> None:
    plain = plain_critic(critic_path)
    expected_metrics = accumulate(plain)
    expected = plain.gradient().double()
    found = run("critic", 2, critic_path, tmp_path, "role_worker")
    assert len(found["gradients"]) == 3 * len(LAYOUTS[2])
    for where, gradient in found["gradients"].items():
        assert (gradient - expected).norm() < 1e-4 * expected.norm(), where

    optimiser = torch.optim.AdamW(
        [
            {"params": [p for p in plain.model.parameters() if p.ndim >= 2], "weight_decay": 0.1},
            {"params": [p for p in plain.model.parameters() if p.ndim < 2], "weight_decay": 0.0},
        ],
        lr=1e-3,
        betas=(0.9, 0.95),
        eps=1e-8,
    )
    start = {name: weight.clone() for name, weight in plain.model.model.state_dict().items()}
    for step in range(4):
        if step:
            accumulate(plain)
        torch.nn.utils.clip_grad_norm_(plain.model.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad()
    trained = plain.model.model.state_dict()
    for stage in CRITIC_STAGES:
        result = found["training"][f"stage {stage}"]
        assert set(result["after"]) == set(trained)
        for name, weight in trained.items():
            error = (result["after"][name] - weight).norm() / (weight - start[name]).norm()
            assert error < 2e-2, f"stage {stage}: {name} is off by {error:.1e} of its way"
            assert torch.equal(result["after"][name], result["again"][name]), f"stage {stage}: {name} after resuming"
        first, then, again = result["metrics"]
        assert then == again
        own = finalize(merge([first[0]]))
        assert own["train/critic_lr"] == 1e-3
        assert own["train/critic_grad_norm"] == pytest.approx(float(expected.norm()), rel=1e-3)
        assert set(expected_metrics) <= set(own)
        assert np.ptp(np.concatenate(result["values"]) - np.concatenate(result["before"])) > 0
        exported, report = AutoModelForSequenceClassification.from_pretrained(
            tmp_path / f"export{stage}", output_loading_info=True
        )
        assert not report["missing_keys"]
        for name, weight in exported.state_dict().items():
            assert torch.equal(weight, result["after"][name]), f"stage {stage}: {name} as exported"

"""Muon and the moving average on two gloo ranks, against their definitions."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from openrlhf.rl.losses.objective import PolicyObjective
from openrlhf.rl.metrics import finalize, merge
from openrlhf.train.step import accumulate_gradient
from tests.batches import micro_batches, random_experience
from tests.fakes import TorchBackend
from tests.integration.ranks import run
from tests.integration.role_worker import ADAM, AVERAGED_STAGES, BETA, MUON, MUON_STAGES
from tests.integration.train_worker import LENGTHS
from tests.models import make_tiny_llama

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def model_path(tmp_path_factory) -> Path:
    return make_tiny_llama(tmp_path_factory.mktemp("model") / "tiny", tied=False, hidden_size=64)


def orthogonalised(matrix: torch.Tensor) -> torch.Tensor:
    """Jordan et al. 2024, "Muon": five quintic Newton-Schulz steps on the matrix over its Frobenius norm, float64."""
    x = matrix.double()
    tall = x.shape[0] > x.shape[1]
    x = x.T if tall else x
    x = x / x.norm()
    for _ in range(5):
        gram = x @ x.T
        x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram @ gram) @ x
    return x.T if tall else x


def expected_muon(path: Path) -> list[dict[str, torch.Tensor]]:
    """The weights before and after each of three steps, the gradient from plain torch at each point."""
    backend = TorchBackend(AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32))
    named = dict(backend.model.named_parameters())
    hidden = {n for n, p in named.items() if p.ndim == 2 and n.startswith("model.layers.")}
    others = [p for n, p in named.items() if n not in hidden]
    adam = torch.optim.AdamW(
        [
            {"params": [p for p in others if p.ndim == 2], "weight_decay": ADAM.weight_decay},
            {"params": [p for p in others if p.ndim == 1], "weight_decay": 0.0},
        ],
        lr=ADAM.lr,
        betas=ADAM.betas,
        eps=ADAM.eps,
    )
    momentum = {name: torch.zeros_like(named[name]) for name in hidden}
    batches = micro_batches(random_experience(LENGTHS), [list(range(len(LENGTHS)))])
    steps = [{name: p.detach().clone() for name, p in named.items()}]
    for _ in range(3):
        accumulate_gradient(backend, batches, PolicyObjective(), kl_coef=0.0, layout="packed", temperature=1.0)
        with torch.no_grad():
            for name in hidden:
                weight, gradient = named[name], named[name].grad
                momentum[name] = MUON.momentum * momentum[name] + (1 - MUON.momentum) * gradient
                blend = (1 - MUON.momentum) * gradient + MUON.momentum * momentum[name]  # Nesterov
                rows, columns = weight.shape
                update = orthogonalised(blend) * max(1.0, rows / columns) ** 0.5
                weight.mul_(1 - MUON.lr * ADAM.weight_decay)
                weight.add_(update.float(), alpha=-MUON.lr)
        adam.step()  # nothing is clipped with Muon
        backend.model.zero_grad()
        steps.append({name: p.detach().clone() for name, p in named.items()})
    return steps


@pytest.mark.slow
def test_muon_steps_hidden_matrices_and_adamw_the_rest(model_path, tmp_path) -> None:
    expected = expected_muon(model_path)
    found = run("muon", 2, model_path, tmp_path, "role_worker")
    for stage in MUON_STAGES:
        result = found[f"stage {stage}"]
        for step in (1, 2, 3):
            for name, weight in expected[step].items():
                way = (weight - expected[step - 1][name]).norm()
                moved = result["path"][step][name] - result["path"][step - 1][name]
                error = (moved - (weight - expected[step - 1][name])).norm() / way
                # Newton-Schulz may run in half precision, and amplifies what differs between two gradients.
                assert error < 0.05, f"stage {stage}, step {step}: {name} is off by {error:.1e} of its way"
        for name, weight in result["path"][3].items():
            assert torch.equal(weight, result["again"][name]), f"stage {stage}: {name} after resuming"
        assert finalize(merge([result["metrics"]]))["train/actor_lr"] == MUON.lr

    before, after = found["bf16"]
    for name, weight in before.items():
        if weight.ndim == 2 and name.startswith("model.layers."):
            # The update alone, whatever bf16 did to the gradient: -(step / lr + decay) is near orthogonal, its singular
            # values in the band that five Newton-Schulz steps end in, but for directions of no gradient at all.
            rows, columns = weight.shape
            update = -(after[name] - weight) / MUON.lr - ADAM.weight_decay * weight
            values = torch.linalg.svdvals(update) / max(1.0, rows / columns) ** 0.5
            assert values.max() < 1.4, name
            assert values.median() > 0.5, name


@pytest.mark.slow
def test_the_average_follows_the_weights_and_is_what_is_exported(model_path, tmp_path) -> None:
    found = run("average", 2, model_path, tmp_path, "role_worker")
    for stage in AVERAGED_STAGES:
        result = found[f"stage {stage}"]
        start, first, second = result["path"]
        exported = AutoModelForCausalLM.from_pretrained(tmp_path / f"average{stage}").state_dict()
        for name, weight in start.items():
            expected = BETA * (BETA * weight + (1 - BETA) * first[name]) + (1 - BETA) * second[name]
            assert torch.allclose(result["averaged"][name], expected, atol=1e-7), f"stage {stage}: {name}"
            assert not torch.equal(expected, second[name]), f"stage {stage}: {name} did not move"
            assert torch.equal(exported[name], result["averaged"][name]), f"stage {stage}: {name} as exported"
            assert torch.equal(result["third"][name], result["again"][name]), f"stage {stage}: {name} after resuming"

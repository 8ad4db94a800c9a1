"""DeepSpeed on one and two gloo ranks against plain torch: sums of gradients, AdamW, checkpoints, exports."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from openrlhf.rl.metrics import finalize, merge
from openrlhf.train.step import accumulate_gradient
from tests.batches import micro_batches, random_experience
from tests.fakes import TorchBackend
from tests.integration.ranks import run
from tests.integration.train_worker import CASES, KL_COEF, LAYOUTS, LENGTHS, OBJECTIVE, PROMPTS
from tests.models import make_tiny_llama

pytestmark = [pytest.mark.engine, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def model_path(tmp_path_factory) -> Path:
    return make_tiny_llama(tmp_path_factory.mktemp("model") / "tiny")


def plain_backend(model_path: Path) -> TorchBackend:
    return TorchBackend(AutoModelForCausalLM.from_pretrained(model_path, dtype=torch.float32))


def accumulate(backend: TorchBackend) -> dict[str, Any]:
    batches = micro_batches(random_experience(LENGTHS, prompts=PROMPTS), [list(range(len(LENGTHS)))])
    return accumulate_gradient(backend, batches, OBJECTIVE, kl_coef=KL_COEF, layout="packed", temperature=0.9).metrics


@pytest.mark.parametrize("world_size", [1, 2])
def test_gradients_are_sums_for_every_stage_rank_count_and_layout(world_size, model_path, tmp_path) -> None:
    plain = plain_backend(model_path)
    accumulate(plain)
    expected = plain.gradient().double()
    results = run("gradients", world_size, model_path, tmp_path)
    assert len(results) == 2 * len(CASES[world_size])
    for (stage, dtype, layout), (gradient, norm) in results.items():
        where = f"ZeRO {stage}, {dtype}, {layout}"
        tolerance = 1e-5 if dtype == "fp32" else 0.1  # bf16 rounds every activation to 3 digits
        assert (gradient - expected).norm() < tolerance * expected.norm(), where
        # Reported norms are sums of squares in fp32, good to 4 digits over this many elements.
        assert norm == pytest.approx(float(expected.norm()), rel=max(tolerance, 1e-4)), where


@pytest.mark.parametrize("world_size", [1, 2])
def test_the_policy_trains_like_plain_adamw_and_resumes(world_size, model_path, tmp_path) -> None:
    plain = plain_backend(model_path)
    groups = [
        {"params": [p for p in plain.model.parameters() if p.ndim >= 2], "weight_decay": 0.1},
        {"params": [p for p in plain.model.parameters() if p.ndim < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95), eps=1e-8)
    expected_metrics = []
    for _ in range(4):
        expected_metrics.append(finalize(accumulate(plain)))
        torch.nn.utils.clip_grad_norm_(plain.model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    expected = dict(plain.model.named_parameters())

    for stage, found in run("policy", world_size, model_path, tmp_path).items():
        assert set(found["after"]) == set(expected)
        assert "lm_head.weight" not in expected
        for name, weight in expected.items():
            assert not torch.equal(found["start"][name], found["after"][name]), f"{stage}: {name} did not move"
            # Adam divides by the gradient's own size, so a gradient near 0 may turn round-off into a step.
            error = (found["after"][name] - weight).norm() / (weight - found["start"][name]).norm()
            assert error < 1e-2, f"{stage}: {name} is off by {error:.1e} of its way"
            assert torch.equal(found["after"][name], found["again"][name]), f"{stage}: {name} after resuming"
            # w <- (1 - lr decay) w - lr adam: from the same weights and states, a decay of 0.3 for 0.1 takes off
            # 1e-3 * 0.2 of each decayed weight more. The difference of two float32 weights is known to 1e-7 of them.
            more = 0.2e-3 if weight.ndim >= 2 else 0.0
            taken = found["third"][name] - found["decayed"][name]
            assert torch.allclose(taken, more * found["loaded"][name], rtol=0, atol=5e-7), f"{stage}: {name} as decayed"
        assert found["steps"] == 4
        first, then, again = found["metrics"]
        assert then == again
        if world_size == 1:
            for metrics, expected_step in zip([*first, *then], expected_metrics, strict=True):
                values = finalize(merge([metrics]))
                assert {k: values[k] for k in expected_step} == pytest.approx(expected_step, rel=1e-3, abs=1e-5)
                assert values["train/actor_lr"] == 1e-3
        exported = AutoModelForCausalLM.from_pretrained(tmp_path / f"export{stage[-1]}")
        for name, weight in exported.named_parameters():
            assert torch.equal(weight, found["after"][name]), f"{stage}: {name} as exported"


@pytest.mark.slow
def test_bf16_keeps_fp32_weights_behind_it(model_path, tmp_path) -> None:
    # 40 AdamW steps of 2e-5 move a weight by at most 8e-4. Beside 0.1, bf16 resolves 5e-4 and rounds a single step
    # away: only the sum of many can show, and it does only where they were added up in fp32.
    for stage, found in run("small_steps", 1, model_path, tmp_path).items():
        for name, start in found["start"].items():
            large = (start.abs() > 0.06) & (start.abs() < 0.12)
            moved = found["after"][name][large] != start[large]
            if start.ndim == 2 and name != "model.embed_tokens.weight":  # most tokens never occur
                assert moved.float().mean() > 0.3, f"{stage}: {name}"
        # The reference runs as the policy does: before training they agree to the last bit.
        assert all((a == b).all() for a, b in zip(found["logprobs"], found["reference"], strict=True)), stage


def test_layouts_train_every_row_once() -> None:
    for layouts in LAYOUTS.values():
        for layout in layouts.values():
            assert sorted(row for ranks in layout for rows in ranks for row in rows) == list(range(len(LENGTHS)))

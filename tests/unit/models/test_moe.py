"""The balancing loss of mixture-of-experts models."""

import pytest
import torch
from transformers import LlamaConfig, MixtralConfig, MixtralForCausalLM
from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func

from openrlhf.models.errors import ModelError
from openrlhf.models.moe import balance_loss, experts_per_token
from openrlhf.rl.losses.objective import PolicyObjective
from openrlhf.rl.metrics import finalize
from openrlhf.train.step import accumulate_gradient
from tests.batches import micro_batches, random_experience
from tests.fakes import TorchBackend

LENGTHS = (9, 5, 14)


def test_by_hand() -> None:
    # Two experts, top 1. Logits (ln 3, 0) choose expert 0 with p = 3/4; (0, ln 3) expert 1 with p = 3/4.
    log3 = torch.log(torch.tensor(3.0))
    first, second = torch.stack([log3, torch.tensor(0.0)]), torch.stack([torch.tensor(0.0), log3])
    # All three to expert 0: f = (1, 0), P = (3/4, 1/4): 2 * 3/4 = 1.5. Half and half: f = P = (1/2, 1/2): 1.
    assert balance_loss([torch.stack([first] * 3)], 1).item() == pytest.approx(1.5)
    assert balance_loss([torch.stack([first, second])], 1).item() == pytest.approx(1.0)
    # Layers do not make up for each other, and padding does not count.
    uneven = torch.stack([first, first, second])
    real = torch.tensor([True, True, False])
    assert balance_loss([uneven, 1 - uneven], 1, real).item() == pytest.approx(1.5, abs=0.06)
    assert balance_loss([uneven], 1, real).item() == pytest.approx(1.5)


def test_one_layer_is_what_transformers_computes() -> None:
    logits = torch.randn(20, 4, generator=torch.Generator().manual_seed(0))
    assert balance_loss([logits], 2).item() == pytest.approx(load_balancing_loss_func((logits,), 4, 2).item(), rel=1e-6)


def test_a_dense_model_is_refused() -> None:
    with pytest.raises(ModelError, match=r"--actor.aux_loss_coef is set, but a llama model returns no router logits"):
        experts_per_token("tiny", LlamaConfig())
    assert experts_per_token("tiny", MixtralConfig(num_experts_per_tok=2)) == 2


def mixtral() -> TorchBackend:
    config = MixtralConfig(
        vocab_size=128, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2, router_jitter_noise=0.0,
    )  # fmt: skip
    torch.manual_seed(0)
    return TorchBackend(MixtralForCausalLM(config).eval())


@pytest.mark.parametrize("coef", [0.0, 0.5])
def test_the_loss_is_in_the_gradient_and_the_same_packed_or_padded(coef: float) -> None:
    batches = micro_batches(random_experience(LENGTHS), [[0, 1, 2]])
    found = {}
    for layout in ("packed", "padded"):
        backend = mixtral()
        metrics, _ = accumulate_gradient(
            backend, batches, PolicyObjective(), kl_coef=0.0, layout=layout, temperature=1.0, aux_loss_coef=coef,
            experts_per_token=2,
        )  # fmt: skip
        routers = [p.grad for name, p in backend.model.named_parameters() if "gate.weight" in name]
        found[layout] = (torch.cat([grad.flatten() for grad in routers]), finalize(metrics)["train/aux_loss"])
    assert torch.allclose(found["packed"][0], found["padded"][0], atol=1e-5)
    assert found["packed"][1] == pytest.approx(found["padded"][1], rel=1e-5)
    assert found["packed"][1] > 2.0  # 2 at an even spread
    plain = mixtral()
    accumulate_gradient(plain, batches, PolicyObjective(), kl_coef=0.0, layout="packed", temperature=1.0)
    without = torch.cat([p.grad.flatten() for name, p in plain.model.named_parameters() if "gate.weight" in name])
    assert torch.allclose(found["packed"][0], without, atol=1e-6) == (coef == 0.0)

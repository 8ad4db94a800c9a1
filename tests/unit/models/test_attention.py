"""Which attention implementations a device takes."""

import pytest
import torch
from transformers import GPTNeoConfig, LlamaForCausalLM

from openrlhf.models.attention import default_attention, explicit_mask, takes_any_mask
from tests.models import tiny_llama_config


def test_a_cpu_gets_sdpa() -> None:
    assert default_attention("cpu") == "sdpa"


def test_local_attention_makes_a_mask_of_its_own() -> None:
    for kind, plain in (("global", True), ("local", False)):
        config = GPTNeoConfig(num_layers=2, attention_types=[[["global", kind], 1]], attn_implementation="eager")
        assert takes_any_mask(config) == plain


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_eager_kernel_gets_a_mask_that_it_can_add(dtype: torch.dtype) -> None:
    allowed = torch.tensor([[True, False], [True, True]])
    config = tiny_llama_config(hidden_size=64, num_layers=1)
    model = LlamaForCausalLM._from_config(config, attn_implementation="eager").to(dtype)
    mask = explicit_mask(model, allowed)
    assert mask.dtype == dtype
    assert mask.tolist() == [[[[0.0, torch.finfo(dtype).min], [0.0, 0.0]]]]
    model.set_attn_implementation("sdpa")
    assert explicit_mask(model, allowed).tolist() == [[allowed.tolist()]]

"""Sequences lie in one row only in models that keep them apart there."""

import logging

import pytest
import torch
from transformers import (
    FalconConfig,
    FalconForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    Lfm2Config,
    Lfm2ForCausalLM,
    LlamaForCausalLM,
    LlamaForSequenceClassification,
    OPTConfig,
    OPTForCausalLM,
    OPTForSequenceClassification,
    PreTrainedModel,
)

from openrlhf.config.train import DsConfig
from openrlhf.models.errors import ModelError
from openrlhf.models.independence import keeps_apart
from openrlhf.models.layout_choice import choose_layout
from openrlhf.models.replica import ReplicaBackend
from openrlhf.models.value import TokenValues
from tests.models import tiny_llama_config

_SIZES = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}


def falcon(alibi: bool) -> PreTrainedModel:
    return FalconForCausalLM(FalconConfig(**_SIZES, alibi=alibi))


def gpt2() -> PreTrainedModel:
    return GPT2LMHeadModel(GPT2Config(vocab_size=64, n_embd=32, n_layer=2, n_head=2))


def lfm2() -> PreTrainedModel:
    layers = ["conv", "full_attention"]
    return Lfm2ForCausalLM(Lfm2Config(**_SIZES, num_key_value_heads=1, intermediate_size=64, layer_types=layers))


def llama(attention: str = "sdpa", window: int | None = None) -> PreTrainedModel:
    config = tiny_llama_config(hidden_size=64)
    config.sliding_window = window
    return LlamaForCausalLM._from_config(config, attn_implementation=attention)


def opt(kind: type[PreTrainedModel] = OPTForCausalLM) -> PreTrainedModel:
    return kind(OPTConfig(**_SIZES, ffn_dim=64, word_embed_proj_dim=32, num_labels=1))


def held(model: PreTrainedModel, dtype: torch.dtype = torch.float32, scalar: bool = False) -> ReplicaBackend:
    """With weights wider than a new model's, as trained ones are; the head says 0 of everything."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, 0.1, generator=generator)
        if scalar:
            model.score.weight.zero_()
    return ReplicaBackend(model.to(dtype), torch.device("cpu"), runner=TokenValues(model) if scalar else None)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("make", "packed", "shared"),
    [
        (llama, True, True),
        (lambda: llama("eager"), True, True),
        (gpt2, True, True),
        (opt, False, True),  # its positions are told, but not to the mask
        (lambda: falcon(alibi=False), False, True),
        (lfm2, False, False),
    ],
)
def test_leaks_are_found_by_trying(make, packed: bool, shared: bool, dtype: torch.dtype) -> None:
    backend = held(make(), dtype)
    assert (keeps_apart(backend, "packed"), keeps_apart(backend, "shared")) == (packed, shared)


@pytest.mark.parametrize(
    ("kind", "apart"), [(LlamaForSequenceClassification, True), (OPTForSequenceClassification, False)]
)
def test_a_head_that_says_0_of_everything_hides_nothing(kind, apart: bool) -> None:
    if kind is OPTForSequenceClassification:
        model = opt(kind)
    else:
        config = tiny_llama_config(hidden_size=64)
        config.num_labels = 1
        model = kind(config)
    assert keeps_apart(held(model, scalar=True), "packed") is apart


def test_the_layout_that_flags_and_model_allow(caplog) -> None:
    assert choose_layout(DsConfig(), held(llama())) == "shared"
    assert choose_layout(DsConfig(share_prompts=False), held(llama())) == "packed"
    assert choose_layout(DsConfig(), held(llama(window=4))) == "packed"
    assert choose_layout(DsConfig(packing_samples=False), held(opt())) == "padded"
    assert caplog.text == ""


@pytest.mark.parametrize("make", [opt, lambda: falcon(alibi=True), lfm2])
def test_a_model_that_leaks_is_padded_with_a_word_or_refused(make, caplog) -> None:
    backend = held(make())
    kind = backend.model.config.model_type
    with caplog.at_level(logging.WARNING):
        assert choose_layout(DsConfig(), backend) == "padded"
    assert [f"see each other in a {kind} model; they are padded" in line for line in caplog.messages] == [True]
    with pytest.raises(ModelError, match=f"a {kind} model, so they must be padded, and --train.dynamic_batch_enable"):
        choose_layout(DsConfig(), backend, dynamic_batches=True)

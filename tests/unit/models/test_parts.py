"""Which weights of a model are hidden matrices, by their modules."""

import pytest
from transformers import (
    GPT2Config,
    GPT2ForSequenceClassification,
    GPT2LMHeadModel,
    LlamaForCausalLM,
    LlamaForSequenceClassification,
    OPTConfig,
    OPTForCausalLM,
)

from openrlhf.models.parts import head_of, hidden_matrices
from tests.models import tiny_llama_config

GPT2 = {"vocab_size": 64, "n_embd": 32, "n_layer": 1, "n_head": 2, "num_labels": 1}
GPT2_MATRICES = {f"transformer.h.0.{name}.weight" for name in ("attn.c_attn", "attn.c_proj", "mlp.c_fc", "mlp.c_proj")}
LLAMA_MATRICES = {
    f"model.layers.0.{name}.weight"
    for name in (
        *(f"self_attn.{part}_proj" for part in "qkvo"),
        *(f"mlp.{part}_proj" for part in ("gate", "up", "down")),
    )
}


def test_gpt2_s_tables_are_no_matrices_though_their_names_say_nothing() -> None:
    # Left out: wte and wpe, whose rows are looked up; the head is wte; norms and biases have one dimension.
    assert hidden_matrices(GPT2LMHeadModel(GPT2Config(**GPT2))) == GPT2_MATRICES
    assert hidden_matrices(GPT2ForSequenceClassification(GPT2Config(**GPT2))) == GPT2_MATRICES


def test_opt_s_own_kind_of_embedding_is_one() -> None:
    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "ffn_dim": 64}
    model = OPTForCausalLM(OPTConfig(vocab_size=64, word_embed_proj_dim=16, **sizes))
    layer = {f"self_attn.{part}_proj" for part in ("q", "k", "v", "out")} | {"fc1", "fc2"}
    expected = {f"layers.0.{name}" for name in layer} | {"project_in", "project_out"}  # 16 wide to 32 and back
    assert hidden_matrices(model) == {f"model.decoder.{name}.weight" for name in expected}


@pytest.mark.parametrize("tied", [True, False])
def test_a_llama_s_matrices_are_those_of_its_layers(tied: bool) -> None:
    assert hidden_matrices(LlamaForCausalLM(tiny_llama_config(tied=tied, num_layers=1))) == LLAMA_MATRICES
    config = tiny_llama_config(tied=tied, num_layers=1)
    config.num_labels = 1
    model = LlamaForSequenceClassification(config)
    assert hidden_matrices(model) == LLAMA_MATRICES
    assert head_of(model) is model.score

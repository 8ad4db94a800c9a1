"""The exported folder, read back with plain transformers (case e2)."""

import json
import resource

import pytest
import torch
from safetensors import safe_open
from tokenizers import Tokenizer, models
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    DeepseekV3Config,
    DeepseekV3ForCausalLM,
    Ernie4_5_MoeConfig,
    Ernie4_5_MoeForCausalLM,
    GenerationConfig,
    PreTrainedTokenizerFast,
)

from openrlhf.models.export import save_hf
from openrlhf.models.load import load_causal_lm
from openrlhf.models.tokenizer import load_tokenizer
from openrlhf.train.deepspeed.gather import gathered_weights
from tests.models import CHAT_TEMPLATE, EOS_ID, make_tiny_llama, make_tiny_tokenizer


@pytest.fixture(scope="module", params=[True, False], ids=["tied", "untied"])
def trained(request, tmp_path_factory):
    """A model after one optimiser step, and its tokenizer."""
    path = make_tiny_llama(tmp_path_factory.mktemp("export"), tied=request.param, hidden_size=32, num_layers=1)
    model = load_causal_lm(str(path), torch.float32, "sdpa")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.tensor([[5, 6, 7, 8]])).logits.square().mean().backward()
    optimizer.step()
    return model, load_tokenizer(str(path)), request.param


def export(trained, folder, dtype=torch.float32) -> None:
    model, tokenizer, _ = trained
    save_hf(model, {name: p.detach().to(dtype) for name, p in model.named_parameters()}, tokenizer, folder)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_export_is_the_trained_model(trained, tmp_path, dtype) -> None:
    model, _, tied = trained
    export(trained, tmp_path, dtype)
    again, report = AutoModelForCausalLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values()), report  # nothing newly initialized, nothing left over
    assert again.dtype == dtype
    assert torch.equal(again.lm_head.weight, again.model.embed_tokens.weight) == tied
    ids = torch.tensor([[9, 8, 7]])
    with torch.no_grad():
        assert torch.allclose(
            again(ids).logits.float(), model(ids).logits, atol=1e-6 if dtype == torch.float32 else 0.3
        )


def test_files(trained, tmp_path) -> None:
    export(trained, tmp_path, torch.bfloat16)
    config = json.loads((tmp_path / "config.json").read_text())
    assert config["dtype"] == "bfloat16"
    assert config["use_cache"] is True
    with safe_open(tmp_path / "model.safetensors", "pt") as file:
        names = set(file.keys())
    assert ("lm_head.weight" in names) == (not trained[2])
    assert GenerationConfig.from_pretrained(tmp_path).eos_token_id == EOS_ID
    tokenizer = AutoTokenizer.from_pretrained(tmp_path)
    assert tokenizer.chat_template == CHAT_TEMPLATE
    assert tokenizer("ab")["input_ids"] == trained[1]("ab")["input_ids"]


def test_whoever_may_read_the_config_may_read_the_weights(trained, tmp_path) -> None:
    export(trained, tmp_path)
    modes = {(tmp_path / name).stat().st_mode for name in ("config.json", "model.safetensors")}
    assert len(modes) == 1


def test_the_training_model_keeps_its_settings(trained, tmp_path) -> None:
    export(trained, tmp_path)
    assert trained[0].config.use_cache is False


def test_mixed_number_formats_are_refused(trained, tmp_path) -> None:
    model, tokenizer, _ = trained
    weights = dict(model.named_parameters())
    weights["model.norm.weight"] = weights["model.norm.weight"].half()
    with pytest.raises(ValueError, match="one dtype"):
        save_hf(model, weights, tokenizer, tmp_path)


@pytest.mark.parametrize(
    ("written", "do_sample"),
    [
        ({"temperature": 0.9, "top_p": 0.6}, True),  # Llama 2
        ({"temperature": 0.9, "do_sample": False}, False),  # says what it wants: kept, though transformers objects
        ({"temperature": 0.9, "length_penalty": 2.0}, None),  # invalid with sampling too: kept
        ({"temperature": 0.9, "do_sample": True}, True),
    ],
)
def test_a_generation_config_that_transformers_would_not_write_costs_no_weights(tmp_path, written, do_sample) -> None:
    path = make_tiny_llama(tmp_path / "base", hidden_size=32, num_layers=1)
    (path / "generation_config.json").write_text(json.dumps(written | {"eos_token_id": [EOS_ID, 7]}))
    model = load_causal_lm(str(path), torch.float32, "sdpa")
    save_hf(model, dict(model.named_parameters()), load_tokenizer(str(path)), tmp_path / "out")
    _, report = AutoModelForCausalLM.from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(report.values()), report
    again = GenerationConfig.from_pretrained(tmp_path / "out")
    assert again.eos_token_id == [EOS_ID, 7]
    assert (again.temperature, again.do_sample) == (0.9, do_sample)
    assert model.generation_config.temperature == 0.9


SMALL = {
    "vocab_size": 128,
    "hidden_size": 32,
    "intermediate_size": 32,
    "moe_intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
}


def test_routers_that_the_architecture_keeps_in_fp32_stay_so(tmp_path) -> None:
    config = Ernie4_5_MoeConfig(**SMALL, moe_num_experts=4, moe_k=2, moe_layer_start_index=0, moe_layer_end_index=0)
    Ernie4_5_MoeForCausalLM(config).save_pretrained(tmp_path / "base")
    model = load_causal_lm(str(tmp_path / "base"), torch.bfloat16, "sdpa")
    weights = dict(gathered_weights(model, sharded=False))
    assert {weight.dtype for weight in weights.values()} == {torch.bfloat16, torch.float32}
    save_hf(model, weights, make_tiny_tokenizer(), tmp_path / "out")
    assert json.loads((tmp_path / "out" / "config.json").read_text())["dtype"] == "bfloat16"
    again = load_causal_lm(str(tmp_path / "out"), torch.bfloat16, "sdpa")
    assert {name: weight.dtype for name, weight in again.named_parameters()} == {
        name: weight.dtype for name, weight in model.named_parameters()
    }


def test_buffers_that_belong_to_the_model_are_exported(tmp_path) -> None:
    """DeepSeek-V3's routers choose experts by scores plus a bias that no gradient reaches."""
    config = DeepseekV3Config(
        **SMALL,
        n_routed_experts=4,
        num_experts_per_tok=2,
        n_group=1,
        topk_group=1,
        first_k_dense_replace=0,
        q_lora_rank=8,
        kv_lora_rank=8,
        qk_rope_head_dim=8,
        qk_nope_head_dim=8,
        v_head_dim=8,
    )
    model = DeepseekV3ForCausalLM(config).bfloat16()
    model.model.layers[0].mlp.gate.e_score_correction_bias = torch.tensor([1.0, 2.0, 3.0, 4.001])
    save_hf(model, dict(gathered_weights(model, sharded=False)), make_tiny_tokenizer(), tmp_path)
    again, report = AutoModelForCausalLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values()), report
    bias = again.model.layers[0].mlp.gate.e_score_correction_bias
    assert torch.equal(bias, torch.tensor([1.0, 2.0, 3.0, 4.001]))  # fp32: bf16 would make 4.0 of the last


@pytest.mark.parametrize("part", ["weights", "tokenizer"])
def test_a_disk_that_takes_no_more_is_an_os_error(trained, tmp_path, part) -> None:
    """A file may have 32000 bytes here: more than the tiny model's tokenizer has, fewer than its weights; of one number
    as weights, and 5000 words, the tokenizer is the first that is too large."""
    model, tokenizer, _ = trained
    weights = {name: p.detach() for name, p in model.named_parameters()}
    if part == "tokenizer":
        words = Tokenizer(models.WordLevel({f"word {i}": i for i in range(5000)}, "word 0"))
        weights, tokenizer = {"one": torch.zeros(1)}, PreTrainedTokenizerFast(tokenizer_object=words)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (32_000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            save_hf(model, weights, tokenizer, tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

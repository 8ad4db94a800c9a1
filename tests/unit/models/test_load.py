"""Loading models: what training needs is set, what is broken is said in one line."""

import json
import shutil

import pytest
import torch

from openrlhf.models.errors import ModelError
from openrlhf.models.load import check_vocabulary, load_causal_lm, load_config
from openrlhf.models.tokenizer import end_ids, load_tokenizer
from tests.models import EOS_ID, make_tiny_llama, make_tiny_tokenizer


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    return make_tiny_llama(tmp_path_factory.mktemp("models") / "tiny", hidden_size=32, num_layers=1)


@pytest.fixture
def broken(tiny, tmp_path):
    return shutil.copytree(tiny, tmp_path / "broken")


def load(path, **options):
    return load_causal_lm(str(path), torch.float32, "sdpa", **options)


def one_line(error: pytest.ExceptionInfo[ModelError]) -> str:
    text = str(error.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_loaded_model_is_ready_for_packed_training(tiny, dtype) -> None:
    model = load_causal_lm(str(tiny), dtype, "sdpa")
    assert model.dtype == dtype
    assert model.config.use_cache is False
    assert model.config._attn_implementation == "sdpa"
    assert not model.is_gradient_checkpointing


@pytest.mark.parametrize("reentrant", [False, True])
def test_gradient_checkpointing_gives_the_same_gradient(tiny, reentrant) -> None:
    plain = load(tiny)
    checkpointed = load(tiny, gradient_checkpointing=True, gradient_checkpointing_reentrant=reentrant)
    ids = torch.tensor([[5, 6, 7, 8]])
    for model in (plain, checkpointed):
        model.train()
        model(ids, use_cache=False).logits.square().mean().backward()
    for one, other in zip(plain.parameters(), checkpointed.parameters(), strict=True):
        assert torch.allclose(one.grad, other.grad, atol=1e-7)


def test_dropout_is_off_but_stays_in_the_config(broken) -> None:
    config = json.loads((broken / "config.json").read_text())
    (broken / "config.json").write_text(json.dumps(config | {"attention_dropout": 0.5}))
    model = load(broken).train()
    ids = torch.tensor([[5, 6, 7, 8]])
    assert torch.equal(model(ids).logits, model(ids).logits)
    assert model.config.attention_dropout == 0.5


def test_a_folder_that_does_not_exist() -> None:
    with pytest.raises(ModelError) as error:
        load("/nowhere/model")
    assert one_line(error) == "model '/nowhere/model': no such folder"


def test_a_folder_without_a_model(tmp_path) -> None:
    with pytest.raises(ModelError) as error:
        load_config(str(tmp_path))
    assert "has no config.json" in one_line(error)


def test_an_unknown_architecture(broken) -> None:
    (broken / "config.json").write_text(json.dumps({"model_type": "abacus"}))
    with pytest.raises(ModelError) as error:
        load(broken)
    assert "abacus" in one_line(error)


def test_a_folder_without_weights(broken) -> None:
    (broken / "model.safetensors").unlink()
    with pytest.raises(ModelError) as error:
        load(broken)
    assert "cannot be loaded" in one_line(error)


def test_a_truncated_weight_file(broken) -> None:
    file = broken / "model.safetensors"
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(ModelError) as error:
        load(broken)
    assert "cannot be loaded" in one_line(error)


def test_weights_that_lack_a_tensor(broken) -> None:
    from safetensors.torch import load_file, save_file

    weights = load_file(broken / "model.safetensors")
    del weights["model.norm.weight"]
    save_file(weights, broken / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelError) as error:
        load(broken)
    assert "model.norm.weight" in one_line(error)


def test_weights_of_another_shape(broken) -> None:
    config = json.loads((broken / "config.json").read_text())
    (broken / "config.json").write_text(json.dumps(config | {"vocab_size": 100}))
    with pytest.raises(ModelError) as error:
        load(broken)
    one_line(error)


def test_a_tokenizer_larger_than_the_embedding(tiny) -> None:
    model, tokenizer = load(tiny), make_tiny_tokenizer()
    check_vocabulary("m", model, tokenizer)  # fewer tokens than rows is usual
    tokenizer.add_tokens([f"<extra{i}>" for i in range(128)])
    with pytest.raises(ModelError, match="embeds 128"):
        check_vocabulary("m", model, tokenizer)


def test_a_tokenizer_without_a_pad_token_pads_with_eos(tmp_path) -> None:
    tokenizer = make_tiny_tokenizer()
    tokenizer.pad_token = None
    tokenizer.save_pretrained(tmp_path)
    assert load_tokenizer(str(tmp_path)).pad_token_id == EOS_ID
    assert load_tokenizer(str(tmp_path), padding=False).pad_token_id is None  # as it was, to be written again


@pytest.mark.parametrize(("named", "ends"), [([EOS_ID, 7], {EOS_ID, 7}), (7, {EOS_ID, 7}), (None, {EOS_ID})])
@pytest.mark.parametrize("file", ["generation_config.json", "config.json"])
def test_the_tokens_that_end_a_response_are_those_of_the_engine(tmp_path, file, named, ends) -> None:
    path = make_tiny_llama(tmp_path / "tiny", hidden_size=32, num_layers=1)
    if file == "config.json":
        (path / "generation_config.json").unlink()
    written = json.loads((path / file).read_text())
    (path / file).write_text(json.dumps(written | {"eos_token_id": named}))
    assert end_ids(str(path), load_tokenizer(str(path))) == ends


def test_a_folder_without_a_tokenizer(tmp_path) -> None:
    with pytest.raises(ModelError) as error:
        load_tokenizer(str(tmp_path))
    assert "tokenizer cannot be loaded" in one_line(error)

"""Value and reward models: folders in and out (case e2), the head at chosen tokens, refusals in one line."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForSequenceClassification, AutoTokenizer, LlamaForSequenceClassification

from openrlhf.models.errors import ModelError
from openrlhf.models.export import save_hf
from openrlhf.models.forward import outputs_at
from openrlhf.models.replica import ReplicaBackend
from openrlhf.models.value import (
    Calibration,
    TokenValues,
    calibration,
    choose_pad_token,
    file_names,
    load_value_model,
)
from tests.batches import micro_batches, random_experience
from tests.models import EOS_ID, UNK_ID, make_tiny_llama, make_tiny_tokenizer, tiny_llama_config

LENGTHS = (9, 5, 14)


def classifier(tied: bool = True, labels: int = 1) -> LlamaForSequenceClassification:
    config = tiny_llama_config(tied=tied, hidden_size=64, num_layers=1)
    config.initializer_range, config.num_labels = 0.1, labels
    torch.manual_seed(1)
    return LlamaForSequenceClassification(config)


def export(model, folder, renamed=None):
    save_hf(model, dict(model.named_parameters()), make_tiny_tokenizer(), folder, renamed)
    return str(folder)


def load(path: str, **options):
    return load_value_model(path, torch.float32, "sdpa", **options)


def last_scores(model, layout: str = "packed") -> np.ndarray:
    (batch,) = micro_batches(random_experience(LENGTHS), [[0, 1, 2]])
    backend = ReplicaBackend(model, torch.device("cpu"), runner=TokenValues(model))
    with torch.no_grad():
        return (
            outputs_at(backend, batch, torch.from_numpy(batch.cu_seqlens[1:]).long() - 1, layout).logits[:, 0].numpy()
        )


@pytest.mark.parametrize("tied", [True, False])
def test_a_saved_model_gives_the_same_scores(tied: bool, tmp_path) -> None:
    # Case e2 A and D: the config ties an embedding to an output head that a classifier does not have.
    model = classifier(tied)
    before = last_scores(model)
    path = export(model, tmp_path / "first")
    again = export(load(path), tmp_path / "second")
    assert (tmp_path / "second" / "tokenizer.json").is_file()
    assert "lm_head.weight" not in load_file(tmp_path / "second" / "model.safetensors")
    np.testing.assert_allclose(last_scores(load(again)), before, atol=1e-6)
    assert np.ptp(before) > 0.01


@pytest.mark.parametrize("layout", ["shared", "packed", "padded"])
def test_scores_are_those_of_transformers_own_classifier(layout: str) -> None:
    model, experience = classifier(), random_experience(LENGTHS)
    expected = []
    for row, length in enumerate(LENGTHS):  # one sequence at a time: nothing is padded, so its pooling is right
        with torch.no_grad():
            expected.append(model(torch.from_numpy(experience.sequences[row, :length])[None]).logits[0, 0].item())
    np.testing.assert_allclose(last_scores(model, layout), expected, atol=1e-5)


def test_a_head_of_another_name_survives_the_way_out_and_in(tmp_path) -> None:
    base = str(make_tiny_llama(tmp_path / "lm", hidden_size=64, num_layers=1))
    model = load(base, head_prefix="value_head", new_head=True)
    with torch.no_grad():
        model.score.weight.normal_()
    path = export(model, tmp_path / "critic", file_names(model.config))
    assert "value_head.weight" in load_file(tmp_path / "critic" / "model.safetensors")
    assert json.loads((tmp_path / "critic" / "config.json").read_text())["value_head_prefix"] == "value_head"
    # The config's own record wins over the flag's default.
    assert torch.equal(load(path).score.weight, model.score.weight)


def test_the_default_folder_is_a_plain_classifier_for_transformers(tmp_path) -> None:
    base = str(make_tiny_llama(tmp_path / "lm", tied=False, hidden_size=64, num_layers=1))
    model = load(base, new_head=True)
    with torch.no_grad():
        model.score.weight.normal_()
    path = export(model, tmp_path / "rm", file_names(model.config))
    plain, report = AutoModelForSequenceClassification.from_pretrained(path, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    assert torch.equal(plain.score.weight, model.score.weight)


def test_a_new_head_says_0_and_only_where_it_is_wanted(tmp_path) -> None:
    base = str(make_tiny_llama(tmp_path / "lm", hidden_size=64, num_layers=1))
    assert last_scores(load(base, new_head=True)).tolist() == [0, 0, 0]
    with pytest.raises(ModelError, match="has no head 'score', so it is no trained reward model"):
        load(base)


def test_several_labels_are_refused(tmp_path) -> None:
    path = export(classifier(labels=2), tmp_path / "two")
    with pytest.raises(ModelError, match="its head has 2 labels"):
        load(path, new_head=True)


def test_calibration_is_read_from_the_config(tmp_path) -> None:
    model = classifier()
    assert calibration(model.config) == Calibration(0.0, 1.0)
    model.config.update({"mean": 2.0, "std": 4.0})
    path = export(model, tmp_path / "rm")
    found = calibration(load(path).config)
    assert found.apply(np.array([2.0, 10.0])).tolist() == [0.0, 2.0]  # (10 - 2) / 4
    model.config.update({"std": 0.0})
    with pytest.raises(ModelError, match=r"std 0\.0"):
        calibration(model.config)


def test_an_exported_critic_is_batched_by_transformers_though_its_base_has_no_pad_token(tmp_path) -> None:
    model, tokenizer = classifier(), make_tiny_tokenizer()
    model.config.pad_token_id = tokenizer.pad_token = None
    choose_pad_token(model.config, tokenizer)
    save_hf(model, dict(model.named_parameters()), tokenizer, tmp_path)
    again, own = AutoModelForSequenceClassification.from_pretrained(tmp_path), AutoTokenizer.from_pretrained(tmp_path)
    assert again.config.pad_token_id == own.pad_token_id == UNK_ID
    texts = ["abc</s>", "abcdef</s>"]
    with torch.no_grad():
        together = again(**own(texts, padding=True, return_tensors="pt")).logits[:, 0]
        alone = torch.cat([again(**own(text, return_tensors="pt")).logits[:, 0] for text in texts])
    assert torch.allclose(together, alone, atol=1e-5)


def test_a_pad_token_that_is_there_stays_and_none_is_made_of_the_end_token() -> None:
    model, tokenizer = classifier(), make_tiny_tokenizer()
    choose_pad_token(model.config, tokenizer)
    assert model.config.pad_token_id == tokenizer.pad_token_id == EOS_ID  # as its base has it
    model.config.pad_token_id = tokenizer.unk_token = tokenizer.bos_token = None
    choose_pad_token(model.config, tokenizer)
    assert model.config.pad_token_id is None

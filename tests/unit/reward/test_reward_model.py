"""Reward models: one score per sequence whatever lies beside it, sums, other vocabularies, long texts."""

import logging

import numpy as np
import pytest
import torch
from tokenizers.processors import TemplateProcessing
from transformers import LlamaForSequenceClassification

from openrlhf.models.replica import ReplicaBackend
from openrlhf.models.value import Calibration, TokenValues
from openrlhf.reward.model import RewardModel, RewardModels, _cut, token_batch
from openrlhf.rl.packing import filler
from tests.batches import micro_batches, random_experience
from tests.models import ALPHABET, BOS, BOS_ID, EOS, EOS_ID, UNK, make_tiny_tokenizer, tiny_llama_config

LENGTHS = (9, 5, 14)


def member(
    seed: int = 0,
    layout: str = "packed",
    scale: Calibration | None = None,
    max_len: int = 64,
    attention: str = "sdpa",
) -> RewardModel:
    config = tiny_llama_config(hidden_size=64, num_layers=1)
    config.num_labels, config.initializer_range = 1, 0.1
    torch.manual_seed(seed)
    model = LlamaForSequenceClassification._from_config(config, attn_implementation=attention)
    backend = ReplicaBackend(model, torch.device("cpu"), runner=TokenValues(model), offload=True)
    return RewardModel(backend, make_tiny_tokenizer(), layout, scale or Calibration(), max_len)


def alone(model: RewardModel, ids) -> float:
    """transformers' own classifier on one sequence: the head at its last token, which must not be the pad token."""
    with torch.no_grad():
        hidden = model.backend.model.base_model(torch.tensor([list(ids)])).last_hidden_state[0, -1]
        return float(model.backend.model.score(hidden)[0])


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("layout", ["shared", "packed", "padded"])
def test_a_sequence_is_scored_as_if_alone(layout: str, attention: str) -> None:
    model, experience = member(layout=layout, attention=attention), random_experience(LENGTHS, prompts=(0, 1, 0))
    batches = micro_batches(experience, [[0, 2], [1]])
    found = RewardModels([model], [1.0], make_tiny_tokenizer()).score([*batches, filler(batches[0].totals)])
    assert [len(part) for part in found] == [2, 1, 1]
    expected = [alone(model, experience.sequences[row, : LENGTHS[row]]) for row in (0, 2, 1)]
    np.testing.assert_allclose(np.concatenate(found[:2]), expected, atol=1e-5)
    assert found[0].dtype == np.float32
    assert np.ptp(expected) > 0.01


def test_an_end_token_that_is_also_the_pad_token_is_where_the_score_is_read() -> None:
    # transformers would look for the last token that is not the pad token, and read the one before.
    model = member()
    (found,) = RewardModels([model], [1.0]).score([token_batch([[5, 6, EOS_ID], [7, EOS_ID]])])
    np.testing.assert_allclose(found, [alone(model, [5, 6, EOS_ID]), alone(model, [7, EOS_ID])], atol=1e-5)


def test_several_models_are_added_with_their_weights_on_their_own_scales() -> None:
    first, second = member(0), member(1, scale=Calibration(mean=0.5, std=2.0))
    batch = token_batch([[5, 6, 7], [8, 9]])
    (found,) = RewardModels([first, second], [1.0, -3.0], make_tiny_tokenizer()).score([batch])
    expected = [alone(first, ids) - 3.0 * (alone(second, ids) - 0.5) / 2.0 for ids in ([5, 6, 7], [8, 9])]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    with pytest.raises(ValueError, match="2 reward models with 1 weights"):
        RewardModels([first, second], [1.0])


def reversed_tokenizer():
    """The same characters under other ids, the end token last."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {token: index for index, token in enumerate([UNK, BOS, *reversed(ALPHABET), EOS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNK))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token=UNK, bos_token=BOS, eos_token=EOS)


def test_another_vocabulary_reads_the_text(caplog) -> None:
    policy, model = reversed_tokenizer(), member()
    assert policy.eos_token_id != EOS_ID
    sampled = [[*policy("abc")["input_ids"], policy.eos_token_id], policy("de")["input_ids"]]
    with caplog.at_level(logging.WARNING):
        models = RewardModels([model], [1.0], policy)
        (found,) = models.score([token_batch(sampled)])
    assert caplog.text.count("another vocabulary") == 1
    expected = [alone(model, [*model.encode("abc"), EOS_ID]), alone(model, model.encode("de"))]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_truncated_text_is_scored_where_it_stops_whatever_the_tokenizer_appends() -> None:
    """A tokenizer that puts the end token after every text would score the unfinished sample as a finished one."""
    policy, model = reversed_tokenizer(), member()
    model.tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"{BOS} $A {EOS}", pair=None, special_tokens=[(BOS, BOS_ID), (EOS, EOS_ID)]
    )
    letters = [3 + ALPHABET.index(letter) for letter in "abc"]
    finished, unfinished = [BOS_ID, *letters, EOS_ID], [BOS_ID, *letters]
    ids = policy("abc")["input_ids"]
    sampled = token_batch([[*ids, policy.eos_token_id], ids, [policy.eos_token_id]])
    (found,) = RewardModels([model], [1.0], policy).score([sampled])
    expected = [alone(model, own) for own in (finished, unfinished, [BOS_ID, EOS_ID])]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    texts = ["abc" + EOS, "abc", BOS + "abc"]  # as a server gets them
    assert [model.encode(text) for text in texts] == [finished, unfinished, unfinished]
    _, (served,) = RewardModels([model], [1.0]).score_texts(texts)
    np.testing.assert_allclose(served, [expected[0], expected[1], expected[1]], atol=1e-5)


def test_every_token_at_which_the_policy_stops_becomes_the_models_end_token() -> None:
    """Gemma stops at <end_of_turn>, which the reward model would read as text, without an end."""
    policy, model = reversed_tokenizer(), member()
    (turn,) = policy("~")["input_ids"]
    sampled = [[*policy("abc")["input_ids"], turn], [*policy("de")["input_ids"], policy.eos_token_id]]
    (found,) = RewardModels([model], [1.0], policy, {policy.eos_token_id, turn}).score([token_batch(sampled)])
    expected = [alone(model, [*model.encode(text), EOS_ID]) for text in ("abc", "de")]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_the_policys_first_token_is_no_text_for_a_model_that_has_another() -> None:
    policy, model = reversed_tokenizer(), member()
    policy.add_special_tokens({"bos_token": "<start>"})
    sampled = [[policy.bos_token_id, *policy("abc")["input_ids"]], policy("abc")["input_ids"]]
    (found,) = RewardModels([model], [1.0], policy).score([token_batch(sampled)])
    np.testing.assert_allclose(found, [alone(model, model.encode("abc"))] * 2, atol=1e-5)


def test_long_texts_lose_their_beginning_and_order_is_kept() -> None:
    model = member(max_len=4)
    models = RewardModels([model], [2.0])
    texts = ["abcdefgh", "zzefgh", "a", "bb", ""]
    rewards, (scores,) = models.score_texts(texts, batch_size=2)
    np.testing.assert_allclose(rewards, 2 * scores)
    assert rewards[0] == pytest.approx(rewards[1], abs=1e-5)  # the last four characters decide
    expected = [alone(model, model.encode(text)) for text in texts]
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    assert model.encode("ab") == [3 + ALPHABET.index("a"), 3 + ALPHABET.index("b")]
    assert model.encode("") == [EOS_ID]
    assert model.encode("ab" + EOS)[-1] == EOS_ID


def test_a_long_text_keeps_the_token_that_begins_every_text() -> None:
    model = member(max_len=4)
    model.tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single=f"{BOS} $A", pair=None, special_tokens=[(BOS, BOS_ID)]
    )
    # 1 + 8 tokens, and 4 fit: the first and "fgh". 1 + 3 fit whole.
    expected = [BOS_ID, *(3 + ALPHABET.index(letter) for letter in "fgh")]
    assert model.encode("abcdefgh") == model.encode("fgh") == expected


def test_passes_are_bounded_by_texts_and_by_tokens() -> None:
    # Shortest first; a text that is longer than a pass stands alone.
    assert _cut([5, 9000, 3, 4], batch_size=2) == [[2, 3], [0], [1]]
    assert _cut([5000, 5000, 100], batch_size=8) == [[2, 0], [1]]

"""Models for toy tasks, made by hand: every next-token probability and every score is known.

With the vocabulary as wide as the hidden state, one-hot embeddings, and decoder layers that add nothing, the last
hidden state is sqrt(width) times the one-hot vector of the last token. So a head is a table with a row per last token.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.models import EOS, make_tiny_tokenizer, tiny_llama_config

WIDTH = 128  # of vocabulary and hidden state


def make_digit_judge(folder: Path) -> Path:
    """A reward model: 1 for a text whose last token is a digit, else 0."""
    import torch
    from transformers import LlamaForSequenceClassification

    config = tiny_llama_config(hidden_size=WIDTH)
    config.num_labels = 1
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = LlamaForSequenceClassification(config)
    tokenizer = make_tiny_tokenizer()
    digits = tokenizer("0123456789", add_special_tokens=False)["input_ids"]
    with torch.no_grad():
        _make_layers_silent(model)
        model.score.weight.zero_()
        model.score.weight[0, digits] = WIDTH**-0.5
    return _save(model, tokenizer, folder)


def make_talker(folder: Path, transitions: Mapping[str, str], max_positions: int) -> Path:
    """A policy that walks a chain of tokens: after each key one of the value's characters, all equally likely.

    In the values `$` stands for the end of the sequence. Tokens that are no key are followed by anything at all.
    """
    import torch
    from transformers import LlamaForCausalLM

    config = tiny_llama_config(tied=False, hidden_size=WIDTH)
    config.max_position_embeddings = max_positions
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = LlamaForCausalLM(config)
    tokenizer = make_tiny_tokenizer()

    def token(character: str) -> int:
        return int(tokenizer.convert_tokens_to_ids(EOS if character == "$" else character))

    with torch.no_grad():
        _make_layers_silent(model)
        model.lm_head.weight.zero_()
        for last, following in transitions.items():
            for character in following:
                model.lm_head.weight[token(character), token(last)] = 20 * WIDTH**-0.5
    return _save(model, tokenizer, folder)


def _make_layers_silent(model: Any) -> None:
    import torch

    model.model.embed_tokens.weight.copy_(torch.eye(WIDTH))
    for layer in model.model.layers:
        layer.self_attn.o_proj.weight.zero_()
        layer.mlp.down_proj.weight.zero_()


def _save(model: Any, tokenizer: Any, folder: Path) -> Path:
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder

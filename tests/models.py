"""Tiny models for tests: a 2-layer Llama (head_dim 32, about 0.4 M parameters) with a character tokenizer.

    path = make_tiny_llama(tmp_path / "tiny")            # tied embedding and output head
    path = make_tiny_llama(tmp_path / "tiny", tied=False)

The folder holds what a published model holds: weights, config, tokenizer, chat template, generation config. The pad
token is the eos token, as in SmolLM2-Instruct: a mask built from `id == pad` fails on it (case a1).

transformers is imported inside the functions: a unit test that only needs the alphabet pays nothing.
"""

import string
from pathlib import Path
from typing import Any

BOS, EOS, UNK = "<s>", "</s>", "<unk>"
SPECIAL_TOKENS = (UNK, BOS, EOS)
UNK_ID, BOS_ID, EOS_ID = 0, 1, 2
ALPHABET = string.digits + string.ascii_letters + string.punctuation + " \n"

# One line per message, `role: content`, and the assistant's turn opened by the generation prompt.
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ message['role'] }}: {{ message['content'] }}\n"
    "{% if message['role'] == 'assistant' %}{{ eos_token }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)


def make_tiny_tokenizer() -> Any:
    """Return a PreTrainedTokenizerFast with one token per character: id 3 + position in ALPHABET."""
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {token: index for index, token in enumerate([*SPECIAL_TOKENS, *ALPHABET])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=UNK))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        unk_token=UNK,
        bos_token=BOS,
        eos_token=EOS,
        pad_token=EOS,
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = CHAT_TEMPLATE
    return fast


def tiny_llama_config(*, tied: bool = True, hidden_size: int = 128, num_layers: int = 2) -> Any:
    """Return the LlamaConfig; head_dim is 32, the smallest that vLLM's CPU attention takes."""
    from transformers import LlamaConfig

    head_dim = 32
    return LlamaConfig(
        vocab_size=128,
        hidden_size=hidden_size,
        intermediate_size=2 * hidden_size,
        num_hidden_layers=num_layers,
        num_attention_heads=hidden_size // head_dim,
        num_key_value_heads=max(1, hidden_size // head_dim // 2),
        head_dim=head_dim,
        max_position_embeddings=1024,
        tie_word_embeddings=tied,
        bos_token_id=BOS_ID,
        eos_token_id=EOS_ID,
        pad_token_id=EOS_ID,
    )


def make_tiny_llama(
    path: Path | str, *, tied: bool = True, seed: int = 0, hidden_size: int = 128, num_layers: int = 2
) -> Path:
    """Write the model folder in fp32 and return its path. Equal arguments give equal weights.

    Weights are drawn wider (std 0.1) than Llama's default (0.02): the next-token distribution is then far from
    uniform, so an engine that runs other weights shows in the logprobs.
    """
    import torch
    from transformers import GenerationConfig, LlamaForCausalLM

    folder = Path(path)
    config = tiny_llama_config(tied=tied, hidden_size=hidden_size, num_layers=num_layers)
    config.initializer_range = 0.1
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = LlamaForCausalLM(config)
    model.generation_config = GenerationConfig(bos_token_id=BOS_ID, eos_token_id=EOS_ID, pad_token_id=EOS_ID)
    model.save_pretrained(folder)
    make_tiny_tokenizer().save_pretrained(folder)
    return folder

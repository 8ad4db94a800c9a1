"""The tokenizer of a model folder."""

from typing import Any

from tokenizers.processors import TemplateProcessing
from transformers import AutoTokenizer, GenerationConfig, PreTrainedTokenizerBase, PreTrainedTokenizerFast

from openrlhf.faults import first_line
from openrlhf.models.errors import ModelError
from openrlhf.models.load import load_config


def load_tokenizer(
    path: str, chat_template: Any = None, *, padding: bool = True, rendered: bool = False
) -> PreTrainedTokenizerBase:
    """Load the tokenizer; a missing pad token becomes the eos token (masks never look at the pad id).

    Args:
        rendered: a chat template renders the prompts and writes every special token that the model is to see, so the
            tokenizer adds none: a model served by its template would not see it either.
        padding: False leaves a missing pad token missing, for a tokenizer that will be written again.
        chat_template: of the model's processor, which stands above the tokenizer's: only it knows of images, and some
            folders keep it where tokenizers do not look. None: the tokenizer's own.

    Raises:
        ModelError: no tokenizer there, or one that cannot be read.
    """
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(path)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"model {path!r}: its tokenizer cannot be loaded: {first_line(error)}") from error
    if padding and tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    if chat_template is not None:
        tokenizer.chat_template = chat_template
    if rendered and isinstance(tokenizer, PreTrainedTokenizerFast):
        tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single="$A", pair="$A $B", special_tokens=[])
    return tokenizer


def end_ids(path: str, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """The tokens that end a response of this model: the tokenizer's, and those of its generation config, at which the
    engines stop too (Gemma's <end_of_turn> beside <eos>).

    Raises:
        ModelError: the model has no config that can be read.
    """
    try:
        generation = GenerationConfig.from_pretrained(path)
    except OSError:  # without that file they stand in the model's own config
        generation = GenerationConfig.from_model_config(load_config(path))
    named = generation.eos_token_id
    ids = named if isinstance(named, list) else [named]
    return frozenset(int(token) for token in [*ids, tokenizer.eos_token_id] if token is not None)

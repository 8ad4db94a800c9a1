"""The tokenizer of a model folder."""

from typing import Any

from transformers import AutoTokenizer, PreTrainedTokenizerBase

from openrlhf.faults import first_line
from openrlhf.models.errors import ModelError


def load_tokenizer(path: str, chat_template: Any = None) -> PreTrainedTokenizerBase:
    """Load the tokenizer; a missing pad token becomes the eos token (masks never look at the pad id).

    Args:
        chat_template: of the model's processor, which stands above the tokenizer's: only it knows of images, and some
            folders keep it where tokenizers do not look. None: the tokenizer's own.

    Raises:
        ModelError: no tokenizer there, or one that cannot be read.
    """
    try:
        tokenizer: Any = AutoTokenizer.from_pretrained(path)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelError(f"model {path!r}: its tokenizer cannot be loaded: {first_line(error)}") from error
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    if chat_template is not None:
        tokenizer.chat_template = chat_template
    return tokenizer

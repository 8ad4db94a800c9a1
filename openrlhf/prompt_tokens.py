"""From the text of a prompt to its token ids: the same everywhere, for rollouts, evaluation and counting.

    ids = prompt_ids(tokenizer, text)

Base models such as Llama, Mistral and Gemma have seen every text begin with one token, and predict badly without it. Of
the special tokens that a tokenizer would add it is the only one that a prompt gets: a final end token would close it.
"""

from collections.abc import Sequence
from typing import Any


def prompt_ids(tokenizer: Any, text: str) -> list[int]:
    """Token ids of a prompt; it begins with the token that the tokenizer puts before every text, once.

    Prompts that a chat template has rendered are as it wrote them: their tokenizer adds nothing (models/tokenizer.py).
    """
    return opened(tokenizer(text, add_special_tokens=False)["input_ids"], opening_id(tokenizer))


def opening_id(tokenizer: Any) -> int | None:
    """The beginning-of-sequence token, where the tokenizer puts it before every text; many know one and do not."""
    bos: int | None = tokenizer.bos_token_id
    if bos is None or list(tokenizer("")["input_ids"][:1]) != [bos]:
        return None
    return bos


def num_added(tokenizer: Any, text: str, ids: Sequence[int]) -> int:
    """How many of the first tokens stand for nothing in the prompt's text: rewards read prompt + response."""
    opening = opening_id(tokenizer)
    return int(opening is not None and list(ids[:1]) == [opening] and not text.startswith(tokenizer.bos_token))


def opened(ids: Sequence[int], opening: int | None) -> list[int]:
    """The ids with `opening` in front. No ids stay none: an empty prompt is to be refused, not sampled from."""
    found = list(ids)
    return found if opening is None or not found or found[0] == opening else [opening, *found]


def kept_end(ids: Sequence[int], count: int, opening: int | None) -> list[int]:
    """The last `count` ids, at least 1; where the first of all is `opening`, it and the last `count` - 1.

    Of a single one the last is it: the opening alone would say nothing of the prompt.
    """
    first = list(ids[:1]) if ids[0] == opening and 1 < count < len(ids) else []
    return first + list(ids[max(0, len(ids) - count) + len(first) :])

"""Prompts that are longer than what the response leaves of the context: they lose their beginning."""

from collections.abc import Sequence
from typing import Any

from openrlhf.prompt_tokens import opened, opening_id
from openrlhf.types import Prompt

_CHUNK = 1000  # prompts per call of the tokenizer
_MARGIN = 8  # bytes; a tokenizer may put a mark before the text


def cut_prompts(prompts: Sequence[Prompt], tokenizer: Any, budget: int) -> dict[int, int]:
    """Tokens of each prompt that has more than `budget`, by prompt_id.

    Tokens are counted as the rollout counts them (`prompt_tokens.py`). A token stands for at least a byte, so prompts
    of fewer bytes are not tokenised. Prompts with images are left out: they are never cut (`images.py`).
    """
    prompts = [prompt for prompt in prompts if not prompt.images]
    candidates = [p for p in prompts if len(p.text) > budget or len(p.text.encode()) + _MARGIN > budget]
    opening = opening_id(tokenizer) if candidates else None
    lengths: dict[int, int] = {}
    for start in range(0, len(candidates), _CHUNK):
        chunk = candidates[start : start + _CHUNK]
        token_ids = tokenizer([prompt.text for prompt in chunk], add_special_tokens=False)["input_ids"]
        found = {p.prompt_id: len(opened(ids, opening)) for p, ids in zip(chunk, token_ids, strict=True)}
        lengths |= {prompt_id: length for prompt_id, length in found.items() if length > budget}
    return lengths

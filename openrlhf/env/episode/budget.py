"""How many tokens a response may have, and what of the prompt is kept, in a context of `max_length` tokens.

max_tokens given:  response <= max_tokens, prompt = its last max_length - max_tokens tokens
max_tokens None:   response <= max(1, max_length - len(prompt)), prompt cut to leave that room

A prompt that is cut keeps the token that the tokenizer puts before every text, and loses what follows it; with room for
one token only it keeps its last.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from openrlhf.prompt_tokens import kept_end


@dataclass(frozen=True, slots=True)
class Budget:
    """What a single turn may use: len(prompt_token_ids) + max_tokens <= max_length."""

    prompt_token_ids: list[int]
    max_tokens: int


def validate_budget(max_tokens: int | None, max_length: int) -> None:
    """Check the two flags against each other; call at start, before any model loads.

    ValueError if no prompt token would fit: the first token of a sequence cannot be sampled, so the prompt needs one.
    """
    if max_length < 2:
        raise ValueError(f"data.max_len is {max_length}: a prompt and a response need at least 2 tokens")
    if max_tokens is not None and not 1 <= max_tokens < max_length:
        raise ValueError(
            f"rollout.max_new_tokens is {max_tokens}, but it must be at least 1 and leave room for a prompt in "
            f"data.max_len {max_length}: give at most {max_length - 1}"
        )


def plan_budget(
    prompt_token_ids: Sequence[int],
    max_tokens: int | None,
    max_length: int,
    has_images: bool = False,
    opening: int | None = None,
) -> Budget:
    """Fit a prompt and its response into `max_length` tokens by dropping the prompt's beginning.

    `opening`: the token that begins every text, as `prompt_tokens.opening_id` finds it; a prompt that begins with it
    keeps it, since such models predict badly without, unless there is room for its last token only.
    ValueError if the flags do not fit each other, the prompt is empty, or a prompt with images would have to be cut:
    that would separate image tokens from their images.

    Example: 7 prompt tokens, max_tokens 4, max_length 10 -> the last 6 prompt tokens, 4 response tokens; where the
    first of the 7 is `opening`, it and the last 5.
    """
    validate_budget(max_tokens, max_length)
    if not prompt_token_ids:
        raise ValueError("the prompt has no tokens: nothing could predict the response's first token")
    room = max(1, max_length - len(prompt_token_ids)) if max_tokens is None else max_tokens
    kept = max_length - room  # at least 1
    if has_images and len(prompt_token_ids) > kept:
        raise ValueError(
            f"a prompt with images has {len(prompt_token_ids)} tokens but only {kept} fit beside {room} response "
            f"tokens in {max_length}: raise data.max_len or lower rollout.max_new_tokens"
        )
    return Budget([int(token) for token in kept_end(prompt_token_ids, kept, opening)], room)

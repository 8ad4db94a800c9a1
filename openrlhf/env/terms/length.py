"""The penalty on responses that come close to their limit."""

from openrlhf.config.terms import OVERLONG_BUFFER


def overlong_penalty(num_tokens: int, max_tokens: int) -> float:
    """0 up to max_tokens - 512 tokens, then linearly to -1 at max_tokens, -1 beyond (Yu et al. 2025, "DAPO").

    Example: limit 1024, 768 tokens -> -0.5.
    """
    excess = num_tokens - (max_tokens - OVERLONG_BUFFER)
    return -min(max(excess / OVERLONG_BUFFER, 0.0), 1.0)

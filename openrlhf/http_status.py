"""What a status says about asking again."""

_PASSING = frozenset({408, 425, 429})  # the body came too slowly, the request too early, or too often


def may_pass(status: int) -> bool:
    """Whether the same request may be answered later: the server failed (5xx), or says that it was about time."""
    return status >= 500 or status in _PASSING

"""The refusal of a conversation that outgrew the context, and how it comes back out of an agent."""

from collections.abc import Iterator

from openrlhf.faults import text_of

TOO_LONG = "context_length_exceeded"  # OpenAI's code


def refusal_of(num_tokens: int, max_length: int) -> str:
    return f"the conversation has {num_tokens} tokens, the context {max_length}"


def is_refusal(error: BaseException, session_id: str) -> bool:
    """Whether what an agent raised is a refusal of its session's request, or was raised from one.

    OpenAI's clients quote the message, others the body with its code or, such as `raise_for_status`, the address alone.
    What an agent raises while it handles a refusal is something else: a judge that is down, for instance.
    """
    signs = (TOO_LONG, "tokens, the context ", f"/sessions/{session_id}/")
    return any(sign in text_of(cause) for cause in _causes(error) for sign in signs)


def _causes(error: BaseException) -> Iterator[BaseException]:
    yield error
    if isinstance(error, BaseExceptionGroup):
        for member in error.exceptions:
            yield from _causes(member)
    if error.__cause__ is not None:
        yield from _causes(error.__cause__)

"""What an agent raises, and whether the server's refusal is behind it."""

import pytest

from openrlhf.rollout.openai_server.refusal import is_refusal, refusal_of

REFUSED = RuntimeError("Error code: 400 - {'error': {'code': 'context_length_exceeded'}}")
BY_ADDRESS = OSError(
    "Client error '400 Bad Request' for url 'http://127.0.0.1:7/sessions/sample-3/v1/chat/completions'"
)


def raised_from(cause: BaseException) -> BaseException:
    try:
        raise ValueError("the agent gave up") from cause
    except ValueError as error:
        return error


def raised_while_handling(handled: BaseException) -> BaseException:
    try:
        try:
            raise handled
        except type(handled):
            raise ConnectionError("the judge is down")  # noqa: B904
    except ConnectionError as error:
        return error


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (REFUSED, True),
        (RuntimeError(f"Error code: 400 - {refusal_of(111, 100)}"), True),
        (BY_ADDRESS, True),
        (raised_from(REFUSED), True),
        (ExceptionGroup("two tasks", [KeyError("x"), raised_from(BY_ADDRESS)]), True),
        (KeyError("no end"), False),
        (raised_while_handling(REFUSED), False),
        (OSError("http://127.0.0.1:7/sessions/sample-30/v1"), False),
    ],
)
def test_only_the_refusal_and_what_comes_from_it(error, expected):
    assert is_refusal(error, "sample-3") == expected

"""Arguments of a tool call: OpenAI writes them as JSON in a string, most chat templates read an object."""

import json
from collections.abc import Callable, Sequence
from typing import Any

Messages = list[dict[str, Any]]


def arguments_object(text: str) -> dict[str, Any] | None:
    """The object that a string of arguments holds; None where it holds none.

    Example: '{"city": "SF"}' -> {"city": "SF"}; 'SF' and '[1]' -> None.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # no JSON, or nested too deeply to be read
        return None
    return value if isinstance(value, dict) else None


def rendered(render: Callable[[Messages], Any], messages: Sequence[dict[str, Any]]) -> Any:
    """What a chat template makes of messages, in whichever form it takes the arguments of their tool calls.

    They are objects where the messages have strings of JSON. A template that refuses those, or writes one as Python
    does, joins arguments to its text, as DeepSeek's do: it is given the strings. What `render` raises passes through;
    where it takes neither form, what it raised of the objects.
    """
    given = list(messages)
    read: list[dict[str, Any]] = []
    objects = [_with_objects(message, read) for message in given]
    if not read:
        return render(given)
    try:
        text = render(objects)
    except Exception as refusal:  # a template is a program of the model's author and may raise anything
        try:
            return render(given)
        except Exception:  # it takes neither form; what it said of the objects is what there is to mend
            raise refusal from None
    return render(given) if any(value and repr(value) in str(text) for value in read) else text


def _with_objects(message: dict[str, Any], read: list[dict[str, Any]]) -> dict[str, Any]:
    """The message with its arguments as objects, which are added to `read`."""
    calls = message.get("tool_calls")
    return message | {"tool_calls": [_read_call(call, read) for call in calls]} if isinstance(calls, list) else message


def _read_call(call: Any, read: list[dict[str, Any]]) -> Any:
    """A tool call, in OpenAI's form or its function alone."""
    if not isinstance(call, dict):
        return call
    if isinstance(call.get("function"), dict):
        return call | {"function": _read_call(call["function"], read)}
    arguments = call.get("arguments")
    value = arguments_object(arguments) if isinstance(arguments, str) else None
    if value is None:
        return call
    read.append(value)
    return call | {"arguments": value}

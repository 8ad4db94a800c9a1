"""From the prompt value of a row to the text that the policy sees."""

import json
import string
from collections.abc import Callable
from typing import Any

from openrlhf.data.errors import DataError
from openrlhf.data.labels import require_encodable
from openrlhf.data.rows import Row
from openrlhf.data.tools import tools_of, without_nulls
from openrlhf.faults import first_line
from openrlhf.interfaces import ImageTokens
from openrlhf.tool_arguments import rendered

MARK = "<image>"  # an image in a string
_SHOWN = 80  # characters of a part in a message
Renderer = Callable[[Row, str], str]


def make_renderer(
    tokenizer: Any | None, apply_chat_template: bool, input_template: str | None, vision: ImageTokens | None = None
) -> Renderer:
    """The function (row, key) -> text of the prompt.

    With `apply_chat_template` the value is a string (one user message) or a list of messages, and the model's
    template adds the opening of the assistant's turn; it is given the tools of the row's column `tools` too. Without
    `apply_chat_template` the value must be a string, put into the `{}` of `input_template` where there is one. With
    `vision` messages may have text and image parts, and each `<image>` in a string is an image; without it content is a
    string.

    Raises DataError if the two do not fit together or the tokenizer has no template; the function raises DataError
    naming row and key for a value it cannot take.
    """
    if apply_chat_template:
        if input_template is not None:
            raise DataError("input_template has no effect with apply_chat_template; leave one of them out")
        if tokenizer is None or not tokenizer.chat_template:
            raise DataError("apply_chat_template: the model has no chat template; use input_template instead")
        return lambda row, key: _chat(tokenizer, row, key, vision)
    if input_template is not None:
        _check_template(input_template)
    return lambda row, key: _plain(input_template, row, key, vision)


def _check_template(template: str) -> None:
    problem = f"input_template {template!r}: expected exactly one {{}}; write other braces twice, as in {{{{ }}}}"
    try:
        fields = [piece[1:] for piece in string.Formatter().parse(template) if piece[1] is not None]
    except ValueError as error:
        raise DataError(problem) from error
    if fields != [("", "", None)]:
        raise DataError(problem)


def _plain(template: str | None, row: Row, key: str, vision: ImageTokens | None) -> str:
    value = _value(row, key)
    if isinstance(value, list):
        raise DataError(f"{row.where}: {key!r} is a list (of messages?), expected a string; see apply_chat_template")
    text = _text(row, key, value)
    text = text if template is None else template.format(text)
    return text if vision is None else vision.mark(text)


def _chat(tokenizer: Any, row: Row, key: str, vision: ImageTokens | None) -> str:
    value = _value(row, key)
    messages = _messages(row, key, value, vision is not None) if isinstance(value, list) else None
    messages = messages or [{"role": "user", "content": _text(row, key, value)}]
    if vision is not None:
        messages = [message | {"content": _parts(message["content"])} for message in messages]
    tools = tools_of(row)
    given = {"tools": tools} if tools else {}

    def render(shown: list[dict[str, Any]]) -> Any:
        return tokenizer.apply_chat_template(shown, tokenize=False, add_generation_prompt=True, **given)

    try:
        text = rendered(render, messages)
    except Exception as error:  # a template is a program of the model's author and may raise anything
        raise DataError(f"{row.where}: the chat template refused {key!r}: {first_line(error)}") from error
    if not isinstance(text, str) or not text:
        raise DataError(f"{row.where}: the chat template made no text of {key!r}")
    if vision is not None:
        _refuse_shown_parts(row, key, messages, text)
    return _encodable(row, key, text)


def _refuse_shown_parts(row: Row, key: str, messages: list[dict[str, Any]], text: str) -> None:
    """A template for text only writes a list of parts as Python does, or as JSON."""
    parts = [part for message in messages for part in message["content"]]
    said = "".join(part.get("text", "") for part in parts)
    for part in parts:
        for shown in (repr(part), json.dumps(part, ensure_ascii=False)):
            if shown in text and shown not in said:
                raise DataError(
                    f"{row.where}: the chat template is for text only: it writes a part of {key!r} as "
                    f"{shown[:_SHOWN]}; put the model's own template into its folder, or use --data.input_template"
                )


def _messages(row: Row, key: str, value: list[Any], with_parts: bool) -> list[dict[str, Any]]:
    """Messages without their None entries: those of their own, and at any depth those that a typed column has added.

    The content of a message that only calls tools may be None, as OpenAI writes it; templates get an empty string.
    """
    if not value:
        raise DataError(f"{row.where}: {key!r} is an empty list of messages")
    messages = []
    for number, message in enumerate(value, start=1):
        name = f"{row.where}: message {number} of {key!r}"
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise DataError(f"{name} is no message; expected an object with 'role' and 'content'")
        content = message.get("content")
        if content is None and message.get("tool_calls"):
            message = message | {"content": ""}
        elif isinstance(content, list) and with_parts:
            message = message | {"content": [_part(row, key, name, part) for part in content]}
        elif isinstance(content, str):
            _encodable(row, key, content)
        else:
            hint = "; parts are for vision-language models" if isinstance(content, list) else ""
            raise DataError(f"{name} has a 'content' of type {type(content).__name__}, expected a string{hint}")
        messages.append(_own(row, message))
    if messages[-1]["role"] == "assistant":
        raise DataError(
            f"{row.where}: {key!r} ends with a message of the assistant, which the policy is to write itself; leave it "
            "out of the list, and put the expected answer into --data.label_key"
        )
    return messages


def _own(row: Row, value: dict[str, Any]) -> dict[str, Any]:
    """A message or part: null says of its own entries that they are not there, but of an argument of a call that it is
    null, unless the column's type has added it."""
    kept: dict[str, Any] = without_nulls(row, {field: item for field, item in value.items() if item is not None})
    return kept


def _part(row: Row, key: str, name: str, part: Any) -> dict[str, Any]:
    """One part of a message, without its None entries, and those that a typed column has added to it."""
    kept = _own(row, part) if isinstance(part, dict) else {}
    if kept.get("type") == "text" and isinstance(kept.get("text"), str):
        _encodable(row, key, kept["text"])
        return kept
    if kept == {"type": "image"}:
        return kept
    if kept.get("type") == "image":
        raise DataError(f"{name} has an image part with {', '.join(kept)}; images belong in the row's --data.image_key")
    raise DataError(f'{name} has a part that is neither {{"type": "text", "text": ...}} nor {{"type": "image"}}')


def _parts(content: str | list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Content as parts, the form that templates of vision-language models take."""
    if isinstance(content, list):
        return content
    pieces = content.split(MARK)
    parts: list[dict[str, Any]] = []
    for number, piece in enumerate(pieces):
        parts += [{"type": "image"}] if number else []
        parts += [{"type": "text", "text": piece}] if piece else []
    return parts


def _value(row: Row, key: str) -> Any:
    value = row.values.get(key)
    if value is None:
        state = "is null" if key in row.values else "is missing"
        raise DataError(f"{row.where}: {key!r} {state}; every row needs a prompt")
    return value


def _text(row: Row, key: str, value: Any) -> str:
    if not isinstance(value, str):
        raise DataError(f"{row.where}: {key!r} is of type {type(value).__name__}, expected a string or messages")
    if not value.strip():
        raise DataError(f"{row.where}: {key!r} is empty; every row needs a prompt")
    return _encodable(row, key, value)


def _encodable(row: Row, key: str, text: str) -> str:
    try:
        return require_encodable(text)
    except ValueError as error:
        raise DataError(f"{row.where}: {key!r}: {error}") from error

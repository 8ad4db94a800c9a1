"""Tool calls in sampled text, in the form that Qwen, Hermes and SmolLM2 are trained on:

<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>       (or a list of such objects)
"""

import json
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from openrlhf.rollout.openai_server.messages import FunctionCall, ToolCall

_BEGIN, _END = "<tool_call>", "</tool_call>"
# Not strict: a policy writes line breaks into strings, which JSON wants escaped.
_JSON = json.JSONDecoder(strict=False)


def one_call_of(tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """SamplingParams.structured_outputs under which nothing but a well-formed call of one of the tools can be sampled.

    ValueError for a tool without a name.
    """
    definitions: dict[str, Any] = {}
    calls = [_call_schema(tool.get("function", {}), f"tool_{i}", definitions) for i, tool in enumerate(tools)]
    schema = calls[0] if len(calls) == 1 else {"anyOf": calls}
    content = {"type": "json_schema", "json_schema": schema | ({"$defs": definitions} if definitions else {})}
    block = {"type": "tag", "begin": _BEGIN, "content": content, "end": _END}
    return {"structural_tag": json.dumps({"type": "structural_tag", "format": block})}


def _call_schema(function: Mapping[str, Any], key: str, definitions: dict[str, Any]) -> dict[str, Any]:
    """The schema of a call. One of arguments that refers to itself goes into `definitions`, under `key`."""
    if not isinstance(function.get("name"), str):
        raise ValueError("tools: a function without a name")
    arguments = function.get("parameters") or {"type": "object"}
    place = f"#/$defs/{key}"
    moved = _moved(arguments, place)
    if moved != arguments:
        definitions[key] = moved
        arguments = {"$ref": place}
    properties = {"name": {"const": function["name"]}, "arguments": arguments}
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def _moved(schema: Any, place: str) -> Any:
    """A schema whose references into itself (`#`, `#/$defs/Item`) are right where it stands at `place` of another."""
    if isinstance(schema, list):
        return [_moved(item, place) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: place + value[1:]
        if key == "$ref" and isinstance(value, str) and (value == "#" or value.startswith("#/"))
        else _moved(value, place)
        for key, value in schema.items()
    }


def split_tool_calls(text: str) -> tuple[str, list[ToolCall]]:
    """Return (text without its tool calls, the calls). A block that is no well-formed call stays in the text."""
    calls: list[ToolCall] = []
    kept, seen = "", 0  # the text before `seen` is dealt with
    begin = text.find(_BEGIN)
    while begin >= 0:
        after = begin + len(_BEGIN)
        found, end = _block(text, after)
        if found:
            calls += found
            kept, seen, after = kept + text[seen:begin], end, end
        begin = text.find(_BEGIN, after)
    return ((kept + text[seen:]).rstrip(), calls) if calls else (text, [])


def _block(text: str, start: int) -> tuple[list[ToolCall], int]:
    """The calls of the block whose content begins at `start`, and where it ends; none if any of them is malformed.

    JSON says itself where it ends: the closing tag may stand in one of its strings too.
    """
    try:
        value, end = _JSON.raw_decode(text, _skip_space(text, start))
        calls = [_call(entry) for entry in (value if isinstance(value, list) else [value])]
    except (ValueError, RecursionError):  # no JSON, or nested too deeply to be read
        return [], start
    end = _skip_space(text, end)
    if not text.startswith(_END, end):
        return [], start
    return [call for call in calls if call is not None] if None not in calls else [], end + len(_END)


def _skip_space(text: str, start: int) -> int:
    return start + len(text[start:]) - len(text[start:].lstrip())


def _call(entry: Any) -> ToolCall | None:
    """None for what is no call. `parameters` is Llama's word for the arguments."""
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        return None
    arguments = entry.get("arguments", entry.get("parameters"))
    if isinstance(arguments, str):  # as OpenAI writes them on the wire
        arguments = _JSON.decode(arguments)
    arguments = {} if arguments is None else arguments
    if not isinstance(arguments, dict):
        return None
    function = FunctionCall(name=entry["name"], arguments=json.dumps(arguments, ensure_ascii=False))
    return ToolCall(id=f"call_{uuid.uuid4().hex[:24]}", function=function)

"""Tool calls in sampled text, in the form that Qwen, Hermes and SmolLM2 are trained on:

<tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>       (or a list of such objects)
"""

import json
import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from openrlhf.rollout.openai_server.messages import FunctionCall, ToolCall

_BEGIN, _END = "<tool_call>", "</tool_call>"
_BLOCK = re.compile(f"{_BEGIN}(.*?){_END}", re.DOTALL)


def one_call_of(tools: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """SamplingParams.structured_outputs under which nothing but a well-formed call of one of the tools can be sampled.

    ValueError for a tool without a name.
    """
    calls = [_call_schema(tool.get("function", {})) for tool in tools]
    content = {"type": "json_schema", "json_schema": calls[0] if len(calls) == 1 else {"anyOf": calls}}
    block = {"type": "tag", "begin": _BEGIN, "content": content, "end": _END}
    return {"structural_tag": json.dumps({"type": "structural_tag", "format": block})}


def _call_schema(function: Mapping[str, Any]) -> dict[str, Any]:
    if not isinstance(function.get("name"), str):
        raise ValueError("tools: a function without a name")
    properties = {"name": {"const": function["name"]}, "arguments": function.get("parameters") or {"type": "object"}}
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def split_tool_calls(text: str) -> tuple[str, list[ToolCall]]:
    """Return (text without its tool calls, the calls). A block that is no well-formed call stays in the text."""
    calls: list[ToolCall] = []

    def take(match: re.Match[str]) -> str:
        found = _calls_of(match.group(1))
        calls.extend(found)
        return "" if found else match.group(0)

    rest = _BLOCK.sub(take, text)
    return (rest.rstrip(), calls) if calls else (text, [])


def _calls_of(block: str) -> list[ToolCall]:
    """The calls of one block, none if any of them is malformed."""
    try:
        value = json.loads(block)
    except ValueError:
        return []
    entries = value if isinstance(value, list) else [value]
    calls = [_call(entry) for entry in entries]
    return [call for call in calls if call is not None] if None not in calls else []


def _call(entry: Any) -> ToolCall | None:
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        return None
    arguments = entry.get("arguments", {})
    if not isinstance(arguments, dict):
        return None
    function = FunctionCall(name=entry["name"], arguments=json.dumps(arguments, ensure_ascii=False))
    return ToolCall(id=f"call_{uuid.uuid4().hex[:24]}", function=function)

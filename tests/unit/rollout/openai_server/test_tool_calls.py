"""Which calls are read in a sampled text, and what binds a call that is demanded."""

import json
from typing import Any

import pytest

from openrlhf.rollout.openai_server.tool_calls import one_call_of, split_tool_calls


def call(content: str) -> str:
    return f"<tool_call>{content}</tool_call>"


def calls_in(text: str) -> list[tuple[str, Any]]:
    return [(found.function.name, json.loads(found.function.arguments)) for found in split_tool_calls(text)[1]]


@pytest.mark.parametrize(
    ("content", "arguments"),
    [
        ('{"name": "say", "arguments": {"a": "</tool_call>"}}', {"a": "</tool_call>"}),
        ('\n{"name": "say", "parameters": {"a": 1}}\n', {"a": 1}),
        ('{"name": "say", "arguments": {"a": "two\nlines"}}', {"a": "two\nlines"}),
        ('{"name": "say", "arguments": "{\\"a\\": 1}"}', {"a": 1}),
        ('{"name": "say", "arguments": null}', {}),
        ('{"name": "say"}', {}),
    ],
)
def test_a_call_is_read_however_the_policy_writes_its_arguments(content, arguments):
    text = "I say " + call(content)
    assert calls_in(text) == [("say", arguments)]
    assert split_tool_calls(text)[0] == "I say"


@pytest.mark.parametrize(
    "content",
    [
        '{"name": "say"',
        '{"name": "say"} and more',
        '{"arguments": {}}',
        '{"name": "say", "arguments": [1]}',
        '{"name": "say", "arguments": "one"}',
        '[{"name": "say"}, 7]',
        '{"name": "say", "arguments": {"a": ' + "[" * 100_000 + "]" * 100_000 + "}}",
    ],
)
def test_what_is_malformed_stays_text(content):
    assert split_tool_calls(call(content)) == (call(content), [])


def test_a_call_behind_a_malformed_one_is_still_read():
    broken, good = "<tool_call>{oops", call('[{"name": "a"}, {"name": "b"}]')
    assert calls_in(f"{broken} {good} then {call('{}')}") == [("a", {}), ("b", {})]
    assert split_tool_calls(f"{broken} {good} then {call('{}')}")[0] == f"{broken}  then {call('{}')}"


def tool(name: str, kind: str) -> dict[str, Any]:
    """A tool as pydantic describes one: an item that refers to itself, and the whole that refers to the item."""
    item = {"properties": {"x": {"type": kind}, "more": {"items": {"$ref": "#/$defs/Item"}, "type": "array"}}}
    parameters = {"type": "object", "properties": {"item": {"$ref": "#/$defs/Item"}}, "$defs": {"Item": item}}
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def references(schema: Any) -> list[str]:
    if isinstance(schema, list):
        return [found for item in schema for found in references(item)]
    if not isinstance(schema, dict):
        return []
    own = [value for key, value in schema.items() if key == "$ref"]
    return own + [found for value in schema.values() for found in references(value)]


def resolved(root: Any, reference: str) -> Any:
    assert reference.startswith("#/")
    for key in reference[2:].split("/"):
        root = root[key]
    return root


TOOLS = [tool("count", "integer"), {"type": "function", "function": {"name": "stop"}}, tool("spell", "string")]


@pytest.mark.parametrize("tools", [TOOLS[:1], TOOLS])
def test_references_of_a_tools_schema_resolve_in_the_schema_that_binds_the_call(tools):
    root = json.loads(one_call_of(tools)["structural_tag"])["format"]["content"]["json_schema"]
    assert references(root)
    assert all(resolved(root, reference) for reference in references(root))
    kinds = {}
    for one in root.get("anyOf", [root]):
        arguments = one["properties"]["arguments"]
        if "$ref" in arguments:
            item = resolved(root, resolved(root, arguments["$ref"])["properties"]["item"]["$ref"])
            kinds[one["properties"]["name"]["const"]] = item["properties"]["x"]["type"]
    assert kinds == {"count": "integer", "spell": "string"} if len(tools) > 1 else {"count": "integer"}
    assert tools[0] == tool("count", "integer")  # the request's own is as it was

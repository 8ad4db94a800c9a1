"""Chat messages: as clients send them, as templates want them, and whether two of them are the same."""

import json
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from openrlhf.tool_arguments import arguments_object


class FunctionCall(BaseModel):
    model_config = ConfigDict(extra="ignore")
    name: str
    arguments: str = "{}"


class ToolCall(BaseModel):
    """One call of a tool, as an assistant message carries it; `arguments` is JSON in a string."""

    model_config = ConfigDict(extra="ignore")
    id: str
    type: Literal["function"] = "function"
    function: FunctionCall


class Message(BaseModel):
    """One message of a conversation. Fields that carry no text (audio, refusal, annotations) are dropped."""

    model_config = ConfigDict(extra="ignore")
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[dict[str, Any]] | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None
    name: str | None = None

    @property
    def text(self) -> str:
        """The content with its text parts joined. ValueError for parts that are, or hold, no text."""
        if isinstance(self.content, list):
            if strange := {str(part.get("type")) for part in self.content if part.get("type") != "text"}:
                raise ValueError(f"content parts of type {', '.join(sorted(strange))} are not supported, only text")
            texts = [part.get("text") for part in self.content]
            if not all(isinstance(text, str) for text in texts):
                raise ValueError("the text of a content part has to be a string")
            return "".join(map(str, texts))
        return self.content or ""

    def for_template(self, parts: bool = False) -> dict[str, Any]:
        """The dict that chat templates read, its content as a string or as `parts`."""
        content: Any = self.text
        if parts:
            content = [{"type": "text", "text": content}] if content else []
        shown: dict[str, Any] = {"role": "system" if self.role == "developer" else self.role, "content": content}
        if self.tool_calls:
            shown["tool_calls"] = [
                {"type": "function", "id": call.id, "function": call.function.model_dump()} for call in self.tool_calls
            ]
        return shown | {k: v for k, v in (("tool_call_id", self.tool_call_id), ("name", self.name)) if v is not None}

    def key(self) -> tuple[Any, ...]:
        """Equal for two messages that say the same, however a client wrote them down again."""
        calls = tuple((c.id, c.function.name, _canonical(c.function.arguments)) for c in self.tool_calls or ())
        return self.role, self.text, calls, self.tool_call_id, self.name


def keys(messages: Sequence[Message]) -> tuple[tuple[Any, ...], ...]:
    return tuple(message.key() for message in messages)


def _canonical(arguments: str) -> str:
    value = arguments_object(arguments)
    return arguments if value is None else json.dumps(value, sort_keys=True)

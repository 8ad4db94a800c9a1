"""The bodies of the chat endpoint: what a request may hold, and the answers in the form the `openai` client reads.

A field that would change what is sampled, or how the prompt is written, and that this server does not have is refused,
and so is one that it does not know. Null, and a value that asks for nothing, pass.
"""

import json
import time
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from openrlhf.rollout.openai_server.messages import Message, ToolCall
from openrlhf.types import Completion

# Fields of OpenAI's and vLLM's protocols that change neither the prompt nor what is sampled.
_HARMLESS = frozenset(
    {
        "user",
        "store",
        "metadata",
        "parallel_tool_calls",
        "service_tier",
        "safety_identifier",
        "prediction",
        "prompt_cache_key",
        "prompt_cache_retention",
        "prompt_cache_options",
        "priority",
        "request_id",
        "cache_salt",
        "return_token_ids",
        "include_reasoning",
        "spaces_between_special_tokens",
    }
)

# Any other field is refused, but for null, an empty list or object, and these values, at which it asks for nothing.
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "presence_penalty": (0,),
    "frequency_penalty": (0,),
    "repetition_penalty": (1,),
    "length_penalty": (1,),
    "top_k": (0, -1),
    "min_p": (0,),
    "top_logprobs": (0,),
    "best_of": (1,),
    "use_beam_search": (False,),
    "ignore_eos": (False,),
    "include_stop_str_in_output": (False,),
    "skip_special_tokens": (True,),
    "echo": (False,),
    "add_generation_prompt": (True,),
    "continue_final_message": (False,),
    "add_special_tokens": (False,),
    "function_call": ("none",),
    "modalities": (["text"],),
    "verbosity": ("medium",),
}


class StreamOptions(BaseModel):
    model_config = ConfigDict(extra="ignore")
    include_usage: bool = False


class FunctionName(BaseModel):
    model_config = ConfigDict(extra="ignore")
    name: str


class NamedTool(BaseModel):
    """A tool_choice that demands a call of one function."""

    model_config = ConfigDict(extra="ignore")
    type: Literal["function"] = "function"
    function: FunctionName


class JsonSchema(BaseModel):
    """`schema` of a response_format; the other fields (name, strict, description) change nothing here."""

    model_config = ConfigDict(extra="ignore")
    definition: dict[str, Any] = Field(alias="schema")


class ResponseFormat(BaseModel):
    """What form the text of an answer must have."""

    model_config = ConfigDict(extra="ignore")
    type: Literal["text", "json_object", "json_schema"] = "text"
    json_schema: JsonSchema | None = None

    @model_validator(mode="after")
    def _has_its_schema(self) -> "ResponseFormat":
        if (self.type == "json_schema") != (self.json_schema is not None):
            raise ValueError("a schema belongs to the type json_schema, and to no other")
        return self

    @property
    def structured_outputs(self) -> dict[str, Any] | None:
        """The same in SamplingParams' words; None: any text will do."""
        if self.json_schema is not None:
            return {"json": self.json_schema.definition}
        return {"json_object": True} if self.type == "json_object" else None


def _checked_tool(tool: dict[str, Any]) -> dict[str, Any]:
    function = tool.get("function", {})
    if not isinstance(function, dict) or not isinstance(function.get("parameters") or {}, dict):
        raise ValueError("the function of a tool, and its parameters, have to be objects")
    return tool


# A dict, not a model of its own: templates print tools as they came.
Tool = Annotated[dict[str, Any], AfterValidator(_checked_tool)]


class ChatRequest(BaseModel):
    """A request to /v1/chat/completions. `session_id` is our own field (`extra_body` of the client)."""

    model_config = ConfigDict(extra="allow")
    messages: list[Message] = Field(min_length=1)
    model: str = ""
    session_id: str | None = None
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    temperature: float | None = Field(None, ge=0)
    top_p: float | None = Field(None, gt=0, le=1)
    seed: int | None = None
    stop: str | list[str] | None = None
    n: Literal[1] | None = 1
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    logprobs: bool | None = False
    tools: list[Tool] | None = None
    tool_choice: Literal["auto", "none", "required"] | NamedTool | None = None
    response_format: ResponseFormat | None = None
    min_tokens: int | None = Field(None, ge=0)  # this and the next two are vLLM's own
    stop_token_ids: list[int] | None = None
    structured_outputs: dict[str, Any] | None = None

    @model_validator(mode="after")
    def _refuse_what_is_not_offered(self) -> "ChatRequest":
        for name, value in (self.model_extra or {}).items():
            if name not in _HARMLESS and value not in (None, [], {}, *_NEUTRAL.get(name, ())):
                raise ValueError(f"{name} is not supported by this server; leave it out")
        form = self.response_format.structured_outputs if self.response_format else None
        if sum(map(bool, (self.demanded_tools, form, self.structured_outputs))) > 1:
            raise ValueError("an answer cannot be a tool call and have a response_format or structured_outputs too")
        if self.tool_choice == "required" and not self.tools:
            raise ValueError("tool_choice is required, but there are no tools")
        if isinstance(self.tool_choice, NamedTool) and not self.demanded_tools:
            raise ValueError(f"tool_choice names {self.tool_choice.function.name!r}, which is not among the tools")
        for message in self.messages:
            _ = message.text  # refuses parts that are no text
        return self

    @property
    def offered_tools(self) -> list[dict[str, Any]]:
        return [] if self.tool_choice == "none" else self.tools or []

    @property
    def demanded_tools(self) -> list[dict[str, Any]]:
        """The tools of which the answer must call one; empty where it may say what it wants."""
        if self.tool_choice == "required":
            return self.tools or []
        if not isinstance(self.tool_choice, NamedTool):
            return []
        return [
            tool for tool in self.tools or [] if tool.get("function", {}).get("name") == self.tool_choice.function.name
        ]

    @property
    def stops(self) -> tuple[str, ...]:
        given = [self.stop] if isinstance(self.stop, str) else self.stop or []
        return tuple(stop for stop in given if stop)


class TokenizeRequest(BaseModel):
    """A request to /tokenize: a conversation, or plain text."""

    model_config = ConfigDict(extra="ignore")
    messages: list[Message] | None = None
    prompt: str | None = None
    tools: list[Tool] | None = None
    add_generation_prompt: bool = True

    @model_validator(mode="after")
    def _one_of_both(self) -> "TokenizeRequest":
        if (self.messages is None) == (self.prompt is None):
            raise ValueError("give either messages or prompt")
        return self


class Reply(BaseModel):
    """What one chat request is answered with."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    id: str
    model: str
    content: str
    tool_calls: list[ToolCall]
    prompt_ids: list[int]
    completion: Completion
    token_texts: list[str]  # of the sampled ids, for `logprobs`
    with_logprobs: bool

    @property
    def finish_reason(self) -> str:
        return "tool_calls" if self.tool_calls else str(self.completion.finish_reason)

    def message(self) -> Message:
        return Message(role="assistant", content=self.content, tool_calls=self.tool_calls or None)

    def body(self) -> dict[str, Any]:
        """A chat.completion, with the exact ids beside it."""
        message: dict[str, Any] = {"role": "assistant", "content": self._content()}
        if self.tool_calls:
            message["tool_calls"] = [call.model_dump() for call in self.tool_calls]
        choice = {"index": 0, "message": message, "finish_reason": self.finish_reason, "logprobs": self._logprobs()}
        return {
            **self._head("chat.completion"),
            "choices": [choice],
            "usage": self._usage(),
            "token_ids": {"prompt": self.prompt_ids, "completion": self.completion.token_ids.tolist()},
        }

    def events(self, with_usage: bool) -> Iterator[str]:
        """The same as server-sent events: role, content, tool calls, the end."""
        yield self._event({"role": "assistant", "content": ""})
        if self.content:
            yield self._event({"content": self.content}, logprobs=self._logprobs())
        for index, call in enumerate(self.tool_calls):
            yield self._event({"tool_calls": [{"index": index, **call.model_dump()}]})
        yield self._event({}, self.finish_reason)
        if with_usage:
            yield _data({**self._head("chat.completion.chunk"), "choices": [], "usage": self._usage()})
        yield "data: [DONE]\n\n"

    def _event(self, delta: dict[str, Any], finish_reason: str | None = None, logprobs: Any = None) -> str:
        choice = {"index": 0, "delta": delta, "finish_reason": finish_reason, "logprobs": logprobs}
        return _data({**self._head("chat.completion.chunk"), "choices": [choice]})

    def _content(self) -> str | None:
        return None if self.tool_calls and not self.content else self.content

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": int(time.time()), "model": self.model}

    def _usage(self) -> dict[str, int]:
        prompt, sampled = len(self.prompt_ids), len(self.completion.token_ids)
        return {"prompt_tokens": prompt, "completion_tokens": sampled, "total_tokens": prompt + sampled}

    def _logprobs(self) -> dict[str, Any] | None:
        if not self.with_logprobs:
            return None
        tokens = zip(
            self.token_texts, self.completion.token_ids.tolist(), self.completion.logprobs.tolist(), strict=True
        )
        return {
            "content": [
                {"token": text, "token_id": token, "logprob": logprob, "bytes": None, "top_logprobs": []}
                for text, token, logprob in tokens
            ]
        }


def tools_key(tools: Sequence[dict[str, Any]]) -> str:
    """Equal for equal tools: they are part of the prompt."""
    return json.dumps(list(tools), sort_keys=True)


def _data(body: dict[str, Any]) -> str:
    return f"data: {json.dumps(body)}\n\n"

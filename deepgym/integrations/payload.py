"""What OpenRLHF's client sends and what it gets back.

request   {"query": [prompt + response], "prompts": [prompt], "labels": [...]}      labels are not looked at
          {"outputs": [response], "prompts": [prompt]}                              also accepted; outputs win
response  {"rewards": [number or NaN], "error_types": [text or null], "extra_logs": {name: number}}
"""

import json
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

MAX_TEXT_CHARS = 2_000_000
MAX_SAMPLES = 1_024
MAX_TOTAL_CHARS = 64_000_000  # over all lists of one request

Text = Annotated[str, StringConstraints(strict=True, max_length=MAX_TEXT_CHARS)]
Texts = Annotated[list[Text], Field(max_length=MAX_SAMPLES)]


class ScoreRequest(BaseModel):
    """Samples to grade. Characters are counted, not bytes."""

    model_config = ConfigDict(extra="ignore")

    prompts: Texts
    query: Texts | None = None
    outputs: Texts | None = None

    @model_validator(mode="after")
    def _one_response_per_prompt(self) -> "ScoreRequest":
        name, texts = ("outputs", self.outputs) if self.outputs is not None else ("query", self.query)
        if texts is None:
            raise PydanticCustomError("no_responses", "neither query nor outputs is given")
        if len(texts) != len(self.prompts):
            counts = {"name": name, "texts": len(texts), "prompts": len(self.prompts)}
            raise PydanticCustomError("length_mismatch", "{name} has {texts} entries, prompts has {prompts}", counts)
        total = sum(len(text) for texts in (self.prompts, self.query, self.outputs) for text in texts or ())
        if total > MAX_TOTAL_CHARS:
            limits = {"total": total, "most": MAX_TOTAL_CHARS}
            raise PydanticCustomError("too_many_characters", "{total} characters in all; at most {most}", limits)
        return self


def response_json(rewards: list[float], error_types: list[str | None], extra_logs: dict[str, float]) -> bytes:
    """The response's body. A reward of NaN is written as the literal NaN, which Python's json and aiohttp read."""
    answer: dict[str, Any] = {"rewards": rewards, "error_types": error_types, "extra_logs": extra_logs}
    return json.dumps(answer, allow_nan=True).encode()

"""An agent of OpenAI's Agents SDK with two tools: it looks a temperature up, then it reports what it has read.

    python3 examples/python/agent_func_openai_agents.py runs/data/weather.jsonl      # writes the prompts
    python3 -m openrlhf.cli.train_ppo_ray --train.agent_func_path examples/python/agent_func_openai_agents.py \
        --data.prompt_dataset runs/data/weather.jsonl --data.input_key prompt --data.label_key label ...

`tool_choice="required"` makes the server bind the sampling: every answer is a well-formed call of a tool, also that of
a model which was never trained to make one. What is left to learn is which tool, when, and with what in it.

Leave --data.apply_chat_template out: the server applies the template. Needs the package openai-agents.
"""

import contextlib
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import agents
from openai import AsyncOpenAI
from pydantic import Field

from openrlhf.utils.agent import OpenAIServerAgentExecutor

MAX_TURNS = 3
DEGREES = {"Oslo": -4, "Rome": 19, "Cairo": 31, "Lima": 22, "Delhi": 27, "Perth": 25}
INSTRUCTIONS = (
    "Answer with one tool call. First call look_up with the city, then call report with the number that you hear.\n"
    'Example: <tool_call>{"name": "look_up", "arguments": {"city": "Lima"}}</tool_call>'
)


@dataclass
class Notes:
    """What happened in one episode."""

    looked_up: int = 0
    reported: int | None = None


@agents.function_tool
async def look_up(
    notes: agents.RunContextWrapper[Notes], city: Literal["Oslo", "Rome", "Cairo", "Lima", "Delhi", "Perth"]
) -> str:
    """The temperature in a city, in degrees."""
    notes.context.looked_up += 1
    return str(DEGREES[city])


@agents.function_tool
async def report(notes: agents.RunContextWrapper[Notes], degrees: Annotated[int, Field(ge=-50, le=50)]) -> str:
    """Tell the user the temperature. Ends the conversation."""
    notes.context.reported = degrees
    return "told"


class AgentExecutor(OpenAIServerAgentExecutor):
    """What the trainer makes, without arguments, once per engine."""

    def __init__(self) -> None:
        super().__init__()
        agents.set_tracing_disabled(True)
        # One client for all samples: each has its own address. A retry would be one more sample of the same turn.
        self.client = AsyncOpenAI(base_url="http://127.0.0.1", api_key="unused", max_retries=0, timeout=None)

    async def run_agent(
        self, *, prompt: str, label: str, base_url: str, session_id: str, images: Any = None, **kwargs: Any
    ) -> Mapping[str, Any]:
        client = self.client.with_options(base_url=base_url)
        clerk = agents.Agent[Notes](
            name="clerk",
            instructions=INSTRUCTIONS,
            model=agents.OpenAIChatCompletionsModel(model="policy", openai_client=client),
            model_settings=agents.ModelSettings(tool_choice="required"),
            reset_tool_choice=False,
            tools=[look_up, report],
            tool_use_behavior=agents.StopAtTools(stop_at_tool_names=["report"]),
        )
        notes = Notes()
        with contextlib.suppress(agents.MaxTurnsExceeded):  # nothing was reported, which is its own verdict
            await agents.Runner.run(clerk, prompt, context=notes, max_turns=MAX_TURNS)
        right = notes.reported is not None and str(notes.reported) == label
        logs = {"looked_up": notes.looked_up, "reported": notes.reported is not None}
        # A report out of thin air may be right by chance, and earns nothing.
        return {"reward": float(right and notes.looked_up > 0), "extra_logs": logs}

    async def close(self) -> None:
        await self.client.close()
        await super().close()


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    questions = ("What is the temperature in {}?", "How warm is it in {}?", "Tell me the weather in {}.", "{} today?")
    rows = [
        {"prompt": question.format(city), "label": str(degrees)}
        for question in questions
        for city, degrees in DEGREES.items()
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    print(f"{path}: {len(rows)} prompts")

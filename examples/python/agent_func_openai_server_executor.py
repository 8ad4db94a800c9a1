"""An agent written against the OpenAI API: it may call a calculator before it answers.

    python3 -m openrlhf.cli.train_ppo_ray --train.agent_func_path examples/python/agent_func_openai_server_executor.py \
        --data.input_key prompt --data.label_key label ...

Leave --data.apply_chat_template out: the server applies the template. Replace `run_agent` by any workflow that takes a
base URL; every answer that it asks for there is trained on. Needs the package openai (vLLM brings it).
"""

import ast
import json
import operator
from collections.abc import Mapping
from typing import Any

from openai import AsyncOpenAI

from openrlhf.utils.agent import OpenAIServerAgentExecutor

MAX_TURNS = 4
CALCULATOR = {
    "type": "function",
    "function": {
        "name": "calculate",
        "description": "Evaluate an arithmetic expression with + - * / and brackets.",
        "parameters": {
            "type": "object",
            "properties": {"expression": {"type": "string"}},
            "required": ["expression"],
        },
    },
}
OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


def calculate(expression: str) -> str:
    """The value as text, or what is wrong with the expression. Nothing is executed."""

    def value(node: ast.expr) -> float:
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            return node.value
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            return OPERATORS[type(node.op)](value(node.left), value(node.right))
        raise ValueError(f"cannot evaluate {ast.unparse(node)}")

    try:
        return f"{value(ast.parse(expression, mode='eval').body):g}"
    except (ValueError, SyntaxError, ArithmeticError, RecursionError, MemoryError) as error:
        return f"error: {error}"


class AgentExecutor(OpenAIServerAgentExecutor):
    """What the trainer makes, without arguments, once per engine."""

    def __init__(self) -> None:
        super().__init__()
        # One client for all samples: each has its own address. A retry would be one more sample of the same turn.
        self.client = AsyncOpenAI(base_url="http://127.0.0.1", api_key="unused", max_retries=0, timeout=None)

    async def run_agent(
        self, *, prompt: str, label: str, base_url: str, session_id: str, images: Any = None, **kwargs: Any
    ) -> Mapping[str, Any]:
        messages: list[Any] = [{"role": "user", "content": prompt}]
        calls, text = 0, ""
        client = self.client.with_options(base_url=base_url)
        for _ in range(MAX_TURNS):
            answer = await client.chat.completions.create(model="policy", messages=messages, tools=[CALCULATOR])
            message = answer.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                text = message.content or ""
                break
            calls += len(message.tool_calls)
            messages += [
                {"role": "tool", "tool_call_id": call.id, "content": result_of(call.function.arguments)}
                for call in message.tool_calls
            ]
        reward = float(bool(label) and label in text)
        return {"reward": reward, "scores": reward, "extra_logs": {"tool_calls": calls}}

    async def close(self) -> None:
        await self.client.close()
        await super().close()


def result_of(arguments: str) -> str:
    try:
        return calculate(str(json.loads(arguments)["expression"]))
    except (ValueError, KeyError, TypeError) as error:
        return f"error: {type(error).__name__} in the arguments"

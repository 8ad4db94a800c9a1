"""Code with feedback: the policy writes a function, deepgym runs it on examples, and it may try again.

    python3 -m openrlhf.cli.train_ppo_ray --train.agent_func_path examples/code_feedback/agent_func.py ...

Label of a prompt: the name of one of deepgym's environments (`deepgym list`), or the JSON of a small task of its own,
{"name": "f", "examples": [[[1, 2], 3]], "hidden": [[[4, 5], 9]]}: arguments and result of each call. The reward is that
of the last attempt on hidden cases; what is fed back comes from the shown examples only.
"""

import json
from collections.abc import Sequence
from functools import cache
from typing import Any

from deepgym.compare import same_data
from deepgym.core import DeepGym
from deepgym.extract import extract_code
from deepgym.models import Case, Environment, RunResult, Verifier
from deepgym.registry import load_environment
from deepgym.sandbox.base import Limits
from openrlhf.utils.agent import AgentInstanceBase, MultiTurnAgentExecutor

MAX_TURNS = 2
AGAIN = "\nUser: {complaint} Write it again.\nAssistant: ```python\n"


@cache
def sandbox() -> DeepGym:
    """One for all episodes of an engine."""
    return DeepGym()


@cache
def environment_of(label: str) -> Environment:
    """The environment that a label names or describes."""
    if not label.startswith("{"):
        return load_environment(label)
    task = json.loads(label)
    verifier = Verifier(
        cases=lambda rng: calls("hidden", task["hidden"], hidden=True),
        judge=lambda case, outcome: same_data(outcome.value, case.expected),
        examples=lambda: calls("example", task["examples"], hidden=False),
    )
    return Environment(
        name="task",
        title=task["name"],
        task="",
        kind="function",
        language="python",
        entry=task["name"],
        verifier=verifier,
        difficulty="easy",
        domain="functions",
        limits=Limits(cpu_seconds=2, wall_seconds=10),
    )


def calls(kind: str, pairs: Sequence[Sequence[Any]], *, hidden: bool) -> list[Case]:
    return [
        Case(f"{kind} {number}", expected, args=tuple(arguments), hidden=hidden)
        for number, (arguments, expected) in enumerate(pairs)
    ]


def complaint(env: Environment, result: RunResult) -> str:
    """What is wrong on the shown examples, in one line."""
    for case, shown in zip(env.verifier.examples(), result.cases, strict=False):
        if not shown.passed:
            call = f"{env.entry}({', '.join(map(repr, case.args))})"
            return f"{call} must be {case.expected!r}. {shown.detail or result.error_message}".strip()
    return result.error_message or "It fails on other inputs."


class AgentInstance(AgentInstanceBase):
    """One episode: at most `MAX_TURNS` attempts."""

    async def reset(self, states: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        self.env = environment_of(states["label"])
        self.code = ""
        return {"observation": states["observation"]}

    async def step(self, states: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
        """The prompt opens the code block, so an action is code up to its closing fence."""
        self.code = extract_code(f"```python\n{states['action_text']}")
        shown = await sandbox().arun(self.env, self.code, cases="shown")
        done = shown.passed or states["turn"] + 1 == MAX_TURNS
        if not done:
            feedback = AGAIN.format(complaint=complaint(self.env, shown))
            return {"rewards": 0.0, "done": False, "environment_feedback": feedback, "extra_logs": {"retries": 1.0}}
        result = await sandbox().arun(self.env, self.code)
        logs = {"crashed": float(result.error_type is not None)}
        return {"rewards": result.score, "scores": float(result.passed), "done": True, "extra_logs": logs}


class AgentExecutor(MultiTurnAgentExecutor):
    def __init__(self) -> None:
        super().__init__(AgentInstance)

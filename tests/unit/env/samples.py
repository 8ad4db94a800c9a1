"""Samples of tasks, and verifiers from a script."""

from dataclasses import dataclass, field
from typing import Any

from openrlhf.config.env import EnvConfig
from openrlhf.env.task import FilterSample, TaskSample
from openrlhf.env.tools import TaskTools


@dataclass
class ScriptedVerifier:
    """Gives the same verdict each time; `asked` holds the arguments of each call."""

    verdict: float | None
    asked: list[tuple[Any, ...]] = field(default_factory=list)

    async def verify(self, *arguments: Any) -> float | None:
        self.asked.append(arguments)
        return self.verdict

    async def close(self) -> None:
        """Nothing to close."""


def tools(
    rule: float | None = 1.0, model: ScriptedVerifier | None = None, puzzle: float | None = 1.0, **terms: Any
) -> TaskTools:
    """Verifiers with these verdicts, and terms."""
    env = EnvConfig.model_validate({"terms": terms})
    return TaskTools(env, ScriptedVerifier(rule), model, ScriptedVerifier(puzzle))  # type: ignore[arg-type]


def task_sample(response: str, label: dict[str, Any] | None = None, **changes: Any) -> TaskSample:
    """A response of 10 of 1000 tokens that ended by itself; tokens are words."""
    given: dict[str, Any] = {
        "prompt": "What is 3+4?",
        "response": response,
        "label": {"gold_ans": "7"} if label is None else label,
        "finish_reason": "stop",
        "num_tokens": 10,
        "max_tokens": 1000,
        "eos": "<eos>",
        "count_tokens": lambda text: len(text.split()),
    }
    return TaskSample(**(given | changes))


def filter_sample(score: float, label: dict[str, Any] | None = None, **changes: Any) -> FilterSample:
    """A sample of 10 of 1000 tokens; names that are no field of it are numbers of its reward."""
    fields = {"num_tokens": 10, "max_tokens": 1000, "truncated": False, "base_perplexity": None}
    fields |= {name: changes.pop(name) for name in list(changes) if name in fields}
    return FilterSample(label or {}, {"rewards": score, "answer_rewards": score} | changes, **fields)  # type: ignore[arg-type]

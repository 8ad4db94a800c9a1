"""What the reward and the filters of a task see of a sample, and what a reward answers.

async def my_reward(sample: TaskSample, tools: TaskTools) -> Mapping[str, float | None]
    {"rewards": ..., "answer_rewards": ..., anything else: ...}

def my_filter(sample: FilterSample) -> bool
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

# Keys of a reward's answer with a meaning of their own; all others are numbers for the log and for the filters.
REWARD = "rewards"  # enters the advantage; None or NaN: no verdict
SCORE = "answer_rewards"  # how right the answer is, usually 0 to 1; dynamic filtering and evaluation; default: rewards


@dataclass(frozen=True, slots=True)
class TaskSample:
    """One finished sample of a task."""

    prompt: str
    response: str  # everything after the prompt, the environment's text too; special tokens kept
    label: Mapping[str, Any]  # the row's label; a label that is no JSON object is {"gold_ans": label}
    finish_reason: str  # "stop" or "length"
    num_tokens: int  # of the response, the environment's tokens too
    max_tokens: int  # the most that the response could have had
    eos: str = ""  # how the end-of-sequence token is written
    special_tokens: tuple[str, ...] = ()  # how the tokenizer writes its special tokens; a model may end with another
    facts: Mapping[str, float] = field(default_factory=dict)  # what the environment counted
    count_tokens: Callable[[str], int] = len  # tokens of a text

    @property
    def text(self) -> str:
        """The response without special tokens behind it."""
        return self._cut()[0]

    @property
    def ends(self) -> tuple[str, ...]:
        """The special tokens behind the response, the last one first."""
        return self._cut()[1]

    def _cut(self) -> tuple[str, tuple[str, ...]]:
        special = tuple(token for token in (self.eos, *self.special_tokens) if token)
        text, ends = self.response.rstrip(), []
        while text.endswith(special):
            ends.append(max((token for token in special if text.endswith(token)), key=len))
            text = text.removesuffix(ends[-1]).rstrip()
        return text, tuple(ends)

    @property
    def stopped(self) -> bool:
        """Whether the response came to an end by itself."""
        return self.finish_reason == "stop"

    def fact(self, name: str) -> float:
        """What the environment counted under a name; 0 where it counted nothing."""
        return self.facts.get(name, 0.0)


@dataclass(frozen=True, slots=True)
class FilterSample:
    """A graded sample, as filters see it."""

    label: Mapping[str, Any]
    logs: Mapping[str, float]  # every number that the reward gave, `rewards` and `answer_rewards` among them
    num_tokens: int
    max_tokens: int
    truncated: bool
    base_perplexity: float | None = None  # of the response under the reference policy; None: not known

    @property
    def score(self) -> float:
        return self.logs[SCORE]

    def log(self, name: str) -> float:
        """A number that the reward gave; 0 where it gave none of that name."""
        return self.logs.get(name, 0.0)

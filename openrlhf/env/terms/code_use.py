"""How a response used its code tool: what its text shows, and what the environment counted."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

_OPENED = "```python"
_BLOCK = re.compile(r"```python.*?```", re.DOTALL)
_OUTPUT = "```output"

RUNS, ERRORS, LAST_FAILED = "code_runs", "code_errors", "last_failed"  # facts of an environment that runs code


@dataclass(frozen=True, slots=True)
class CodeUse:
    """Counts of one response."""

    blocks: int  # complete ```python blocks
    opened: int  # ```python fences, closed or not
    outputs: int  # ```output blocks
    runs: int
    errors: int  # runs that ended with an error
    last_failed: bool

    @property
    def all_failed(self) -> bool:
        """Whether code ran, and never without an error."""
        return self.runs > 0 and self.errors >= self.runs

    def logs(self) -> dict[str, float]:
        return {
            "code_count": self.blocks,
            "partial_code_count": self.opened,
            "output_count": self.outputs,
            RUNS: self.runs,
            ERRORS: self.errors,
            "code_all_failed": float(self.all_failed),
            "code_last_failed": float(self.last_failed),
        }


def code_use(text: str, facts: Mapping[str, float]) -> CodeUse:
    """Counts in the text of a response and in the facts of its environment."""
    return CodeUse(
        blocks=len(_BLOCK.findall(text)),
        opened=text.count(_OPENED),
        outputs=text.count(_OUTPUT),
        runs=int(facts.get(RUNS, 0)),
        errors=int(facts.get(ERRORS, 0)),
        last_failed=facts.get(LAST_FAILED, 0) > 0,
    )

"""When the policy stops and what happens then: the state of one episode in text, without tokens and without a sandbox.

    text:  stops at ```python (and at the ends below)       -> code
    code:  stops at the fence ``` (and at the ends below)   -> the block is run, and its result follows -> text

Both transitions count. After `2 * rounds` of them the code stops are gone and the policy finishes freely. Every other
stop ends the episode: the end token, the budget, and the texts of `ENDS`, with which a policy speaks for somebody else
or closes its answer.
"""

import re
from dataclasses import dataclass

ENDS = ("User:", "Human:", "Assistant:", "</answer>")
OPEN = "```python"
FENCES = ("```", "```\n", "```\n\n")
# The opening line to its end, then the code. The engine may sample the end of one and the start of the other at once.
_BLOCK = re.compile(r"```python[^\S\n]*\n(.*?)```", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Run:
    """The policy closed a block: run this code."""

    code: str


@dataclass(frozen=True, slots=True)
class GoOn:
    """The policy goes on, nothing to tell it."""


@dataclass(frozen=True, slots=True)
class End:
    """The episode is over."""


Step = Run | GoOn | End


class Turns:
    """`stops` says how to sample the next action; `take` reads it."""

    def __init__(self, rounds: int) -> None:
        self._limit = 2 * rounds
        self._transitions = 0
        self._block: str | None = None  # what follows the open fence, the fence included; None: in text

    @property
    def stops(self) -> tuple[str, ...]:
        """The stop texts of the next action; the end token is not among them, it always stops."""
        if self._transitions >= self._limit:
            return ENDS
        return ENDS + ((OPEN,) if self._block is None else FENCES)

    def take(self, text: str) -> Step:
        """Read an action that ended by a stop, as its tokens decode: the last one may reach beyond the stop."""
        stop = _first(text, self.stops)
        if self._block is None:
            if stop != OPEN:
                return End()
            self._transitions += 1
            self._block = text[text.index(OPEN) :]
            return GoOn()
        if stop not in FENCES:
            return End()
        self._transitions += 1
        block, self._block = self._block + text, None
        found = _BLOCK.match(block)
        if found is None:
            return End()
        return Run(found[1]) if found[1].strip() else GoOn()


def _first(text: str, stops: tuple[str, ...]) -> str | None:
    """The stop at which an engine that reads along stops: the one that is complete first."""
    ends = [(text.index(stop) + len(stop), stop) for stop in stops if stop in text]
    return min(ends)[1] if ends else None

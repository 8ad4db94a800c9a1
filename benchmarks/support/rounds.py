"""Comparing speeds on a machine that is not quiet: contestants take turns and are compared per round.

    round 1: A B C   round 2: A B C   ...      ratio of B = median over rounds of (B's tokens/s : A's tokens/s)

A load that comes and goes slows neighbouring turns alike, so it cancels in their ratio.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Turn:
    """What one contestant did in one round."""

    tokens: int
    seconds: float

    @property
    def rate(self) -> float:
        """Tokens per second."""
        return self.tokens / self.seconds


def take_turns(contestants: Mapping[str, Callable[[int], Turn]], rounds: int) -> dict[str, list[Turn]]:
    """Run every contestant once to warm up (round 0, not counted), then `rounds` times in turn.

    Raises:
        ValueError: contestants did different numbers of tokens in a round, so their times do not compare.
    """
    turns: dict[str, list[Turn]] = {name: [] for name in contestants}
    for number in range(rounds + 1):
        found = {name: run(number) for name, run in contestants.items()}
        if len({turn.tokens for turn in found.values()}) > 1:
            raise ValueError(f"round {number}: different work: { {name: turn.tokens for name, turn in found.items()} }")
        label = f"round {number}" if number else "warm-up"
        print(f"{label:8s}", *(f"  {name} {turn.seconds:.2f} s" for name, turn in found.items()), flush=True)
        if number:
            for name, turn in found.items():
                turns[name].append(turn)
    return turns


def report(turns: Mapping[str, Sequence[Turn]], targets: Mapping[str, float]) -> None:
    """Print every contestant's median tokens/s and its ratio to the first one's, with the range over rounds.

    `targets`: the ratio that a contestant should reach, by name.
    """
    base = next(iter(turns))
    width = max(map(len, turns))
    for name, own in turns.items():
        line = f"{name:{width}s}  {statistics.median(turn.rate for turn in own):9.1f} tokens/s"
        if name != base:
            ratios = [turn.rate / other.rate for turn, other in zip(own, turns[base], strict=True)]
            ratio = statistics.median(ratios)
            line += f"  ratio {ratio:.3f} ({min(ratios):.3f} to {max(ratios):.3f})"
            if name in targets:
                line += f"  target {targets[name]}: {'reached' if ratio >= targets[name] else 'MISSED'}"
        print(line)

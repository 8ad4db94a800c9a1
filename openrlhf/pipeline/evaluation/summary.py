"""From the lines of all samples to the numbers of each datasource.

    mean@n    mean over prompts of the mean score of its graded samples
    pass@k    mean over prompts of the unbiased estimate from its graded samples

Both with an interval over prompts (rl/pass_rates.py): it says how much the number would move with other prompts of the
same kind. Samples without a verdict are counted and left out; a prompt with fewer than k graded samples leaves pass@k.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from openrlhf.config.evaluate import EvaluatedPrompts
from openrlhf.rl.pass_rates import interval, pass_at_k

ALL = "all"  # every datasource together
Row = Mapping[str, Any]


def summarise(rows: Sequence[Row], asked: EvaluatedPrompts, seed: int) -> dict[str, dict[str, Any]]:
    """The numbers of each datasource by name, and of `all` where there are several."""
    by_source: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_source[row["datasource"]].append(row)
    if len(by_source) > 1:
        by_source[ALL] = list(rows)
    return {source: _numbers(own, asked, seed) for source, own in by_source.items()}


def _numbers(rows: Sequence[Row], asked: EvaluatedPrompts, seed: int) -> dict[str, Any]:
    prompts: dict[int, list[float]] = defaultdict(list)
    for row in rows:
        prompts[row["prompt_id"]] += [] if row["score"] is None else [row["score"]]
    graded = [scores for scores in prompts.values() if scores]
    n = asked.n_samples_per_prompt
    numbers: dict[str, Any] = {
        "prompts": len(prompts),
        "samples": len(rows),
        f"mean@{n}": _estimate([float(np.mean(scores)) for scores in graded], asked.confidence, seed),
    }
    for k in asked.pass_at:
        passed = [
            pass_at_k(len(scores), sum(score > asked.pass_threshold for score in scores), k)
            for scores in graded
            if len(scores) >= k
        ]
        numbers[f"pass@{k}"] = _estimate(passed, asked.confidence, seed)
    return numbers | {
        "response_length": _lengths([row["response_length"] for row in rows]),
        "truncated_rate": float(np.mean([row["truncated"] for row in rows])),
        "ungraded_rate": float(np.mean([row["score"] is None for row in rows])),
        "failures": dict(Counter(row["failure"] for row in rows if row["failure"] is not None).most_common()),
        "extra_logs": _extra(rows),
    }


def _estimate(values: Sequence[float], confidence: float, seed: int) -> dict[str, float | int | None]:
    """`value` None: no prompt has one."""
    if not values:
        return {"value": None, "low": None, "high": None, "prompts": 0}
    low, high = interval(values, confidence, seed)
    return {"value": float(np.mean(values)), "low": low, "high": high, "prompts": len(values)}


def _lengths(lengths: Sequence[int]) -> dict[str, float]:
    tenth, half, nine_tenths = np.quantile(lengths, [0.1, 0.5, 0.9])
    return {
        "mean": float(np.mean(lengths)),
        "p10": float(tenth),
        "median": float(half),
        "p90": float(nine_tenths),
        "max": float(max(lengths)),
    }


def _extra(rows: Sequence[Row]) -> dict[str, float]:
    """Means over the samples that have a finite number."""
    found: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        for name, value in row["extra_logs"].items():
            if np.isfinite(value):
                found[name].append(value)
    return {name: float(np.mean(values)) for name, values in sorted(found.items())}


def table(summary: Mapping[str, Mapping[str, Any]], asked: EvaluatedPrompts) -> str:
    """The summary as text, one line per datasource."""
    rates = [f"mean@{asked.n_samples_per_prompt}", *(f"pass@{k}" for k in asked.pass_at)]
    shown = [f"{rate} ({asked.confidence:.0%})" for rate in rates]
    lines = [["datasource", "prompts", *shown, "length", "cut", "failures"]]
    for source, numbers in summary.items():
        failures = ", ".join(f"{kind} {count}" for kind, count in list(numbers["failures"].items())[:3])
        lines.append(
            [
                source,
                str(numbers["prompts"]),
                *(_shown(numbers[rate]) for rate in rates),
                f"{numbers['response_length']['mean']:.0f}",
                f"{numbers['truncated_rate']:.0%}",
                failures or "none",
            ]
        )
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    padded = ([cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines)
    return "\n".join("  ".join(line).rstrip() for line in padded)


def _shown(estimate: Mapping[str, Any]) -> str:
    if estimate["value"] is None:
        return "none"
    return f"{estimate['value']:.3f} [{estimate['low']:.3f}, {estimate['high']:.3f}]"

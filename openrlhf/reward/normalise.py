"""What a reward function or server returned -> one `RewardOutcome` per sample.

The rules, for n samples:

- The answer is a mapping with `rewards`, and may have `scores` (default: the rewards) and `extra_logs`. A Python
  function may also return the rewards alone.
- `rewards` and `scores` hold n entries: a list, tuple, numpy array or torch tensor of shape (n,) or (n, 1). A bare
  number counts as shape (1,). Nothing is broadcast: any other length is an error.
- An entry is a number or a boolean (true is 1). Text is refused, numeric text too. None and NaN mean no verdict, and
  so does a number that float32 holds only as infinite: nothing can be learned from it.
- A value of `extra_logs` is a number, given to each of the n samples, or n numbers. Logs never stop a run: what is
  neither is left out with one warning that names the key.
"""

import math
import numbers
from collections.abc import Mapping
from typing import Any

import numpy as np

from openrlhf.reward.errors import RewardError
from openrlhf.reward.tally import Tally
from openrlhf.types import FLOAT32_MAX, RewardOutcome, Status

EXPECTED = '{"rewards": [number per sample], "scores": [...] (optional), "extra_logs": {...} (optional)}'


def normalise(raw: Any, count: int, source: str, tally: Tally, bare: bool = False) -> list[RewardOutcome]:
    """Check the answer of `source` for `count` samples; `bare` allows rewards without the mapping around them.

    Raises:
        RewardError: a wrong form or length; names `source`.
    """
    answer = _mapping(raw, source, bare)
    rewards = _numbers(answer["rewards"], count, f"{source}: rewards")
    given_scores = answer.get("scores")
    scores = rewards if given_scores is None else _numbers(given_scores, count, f"{source}: scores")
    logs = _extra_logs(answer.get("extra_logs"), count, source, tally)
    return [
        _outcome(reward, score, {key: values[i] for key, values in logs.items()}, source, tally)
        for i, (reward, score) in enumerate(zip(rewards, scores, strict=True))
    ]


def _mapping(raw: Any, source: str, bare: bool) -> Mapping[str, Any]:
    if isinstance(raw, Mapping):
        if "rewards" not in raw:
            raise RewardError(f"{source}: no 'rewards' among the keys {_shorten(list(raw))}; expected {EXPECTED}")
        return raw
    if raw is None and bare:
        raise RewardError(f"{source}: returned None, is a return statement missing? expected {EXPECTED}")
    if not bare or isinstance(raw, str):
        raise RewardError(f"{source}: got {kind_of(raw)}; expected {EXPECTED}")
    return {"rewards": raw}


def _outcome(reward: float, score: float, logs: dict[str, float], source: str, tally: Tally) -> RewardOutcome:
    reward, score = as_float32(reward), as_float32(score)
    for name, value in (("reward", reward), ("score", score)):
        if not math.isfinite(value):
            kind, shown = ("nan", "None or NaN") if math.isnan(value) else ("infinite", str(value))
            reason = f"{source}: {name} is {shown}"
            tally.ungraded(kind, reason)
            return RewardOutcome(math.nan, math.nan, Status.UNGRADED, reason, logs)
    return RewardOutcome(reward, score, Status.GRADED, "", logs)


def as_float32(value: float) -> float:
    """Keep the value, or infinity where the float32 arrays of `Experience` would hold infinity."""
    return math.copysign(math.inf, value) if abs(value) > FLOAT32_MAX else value


def _numbers(values: Any, count: int, what: str) -> list[float]:
    """`count` floats, or RewardError."""
    entries = _entries(values)
    if entries is None:
        entries = [values]  # a bare number
    if len(entries) != count:
        raise RewardError(f"{what}: expected {count}, got {len(entries)} (nothing is broadcast to several samples)")
    numbers_ = [number_of(entry) for entry in entries]
    for index, number in enumerate(numbers_):
        if number is None:
            raise RewardError(f"{what}[{index}]: expected a number, got {kind_of(entries[index])}")
    return [number for number in numbers_ if number is not None]


def number_of(entry: Any) -> float | None:
    """The entry as a float, NaN for None; None if it is no number. A one-element list or tensor is its element."""
    inner = _entries(entry)
    if inner is not None:
        if len(inner) != 1 or _entries(inner[0]) is not None:
            return None
        entry = inner[0]
    entry = _plain(entry)
    if entry is None:
        return math.nan
    if not isinstance(entry, numbers.Real):
        return None
    try:
        return float(entry)
    except OverflowError:  # an int beyond float64
        return math.inf if entry > 0 else -math.inf  # type: ignore[operator]


def _entries(value: Any) -> list[Any] | None:
    """The elements along the first dimension; None for what has no dimension."""
    value = _plain(value)
    return list(value) if isinstance(value, list | tuple) else None


def _plain(value: Any) -> Any:
    """numpy and torch values as Python numbers and lists. torch is recognised by name, so it need not be installed."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if any(base.__module__.split(".")[0] == "torch" and base.__name__ == "Tensor" for base in type(value).__mro__):
        return value.detach().cpu().tolist()
    return value


def _extra_logs(logs: Any, count: int, source: str, tally: Tally) -> dict[str, list[float]]:
    """Each usable key with one value per sample."""
    if logs is None:
        return {}
    if not isinstance(logs, Mapping):
        tally.warn_once("extra_logs", f"{source}: extra_logs is {kind_of(logs)}, not a mapping, and is left out")
        return {}
    kept: dict[str, list[float]] = {}
    for key, value in logs.items():
        entries = _entries(value)
        candidates = [number_of(value)] * count if entries is None else [number_of(entry) for entry in entries]
        usable = [number for number in candidates if number is not None]
        if len(candidates) == count == len(usable):
            kept[str(key)] = usable
        else:
            what = f"{source}: extra_logs[{key!r}] is {kind_of(value)}, neither a number nor {count}, and is left out"
            tally.warn_once(f"extra_logs {key}", what)
    return kept


def kind_of(value: Any) -> str:
    """Type and beginning of a value, for messages."""
    return f"{type(value).__name__} {_shorten(value)}"


def _shorten(value: Any, limit: int = 80) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= limit else f"{text[:limit]}..."

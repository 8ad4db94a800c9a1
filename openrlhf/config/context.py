"""Whether a model's positions suit the lengths that a run may need."""

import json
from pathlib import Path
from typing import Any


def context_problems(flag: str, name: str, file: Path, max_len: int) -> list[str]:
    """Longer sequences than the model knows positions for are refused by the engine; say so at once.

    `file`: the config.json of the model `name`, which `--{flag}` gave.
    """
    try:
        positions = _text_config(file).get("max_position_embeddings")
    except (OSError, ValueError, RecursionError) as error:
        return [f"--{flag} {name}: config.json cannot be read: {error}"]
    if isinstance(positions, int) and max_len > positions:
        return [f"--data.max_len {max_len}: {name} knows {positions} positions; use at most that"]
    return []


def longrope_problems(name: str, file: Path, max_len: int) -> list[str]:
    """Refuse lengths at which a longrope model in training changes to its long factors.

    The engine then uses these for every sequence, the trainer for all sequences of a pass that holds a long one: a
    token's log-probability would depend on what is scored beside it. A file that cannot be read is another's problem.
    """
    try:
        model = _text_config(file)
    except (OSError, ValueError, RecursionError):
        return []
    rope = model.get("rope_parameters") or model.get("rope_scaling")
    if not isinstance(rope, dict) or rope.get("rope_type", rope.get("type")) != "longrope":
        return []
    short = rope.get("original_max_position_embeddings", model.get("original_max_position_embeddings"))
    if not isinstance(short, int) or max_len <= short:
        return []
    return [
        f"--data.max_len {max_len}: beyond {short} tokens {name} turns the positions of all tokens in another way "
        "(longrope), so log-probabilities would depend on what is scored beside; use at most that"
    ]


def _text_config(file: Path) -> dict[str, Any]:
    """The config.json, or the language part of a vision-language model's. OSError, ValueError, RecursionError."""
    model = json.loads(file.read_text())
    inner = model.get("text_config") if isinstance(model, dict) else None
    model = inner if isinstance(inner, dict) else model
    return model if isinstance(model, dict) else {}

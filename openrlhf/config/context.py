"""Whether a model knows as many positions as a run may need."""

import json
from pathlib import Path


def context_problems(flag: str, name: str, file: Path, max_len: int) -> list[str]:
    """Longer sequences than the model knows positions for are refused by the engine; say so at once.

    `file`: the config.json of the model `name`, which `--{flag}` gave.
    """
    try:
        model = json.loads(file.read_text())
    except (OSError, ValueError, RecursionError) as error:
        return [f"--{flag} {name}: config.json cannot be read: {error}"]
    inner = model.get("text_config") if isinstance(model, dict) else None  # of a vision-language model
    model = inner if isinstance(inner, dict) else model
    positions = model.get("max_position_embeddings") if isinstance(model, dict) else None
    if isinstance(positions, int) and max_len > positions:
        return [f"--data.max_len {max_len}: {name} knows {positions} positions; use at most that"]
    return []

"""deepgym list"""

from pathlib import Path

from deepgym.models import Environment
from deepgym.registry import load_all

_ORDER = ("easy", "medium", "hard")


def list_environments(folder: tuple[Path, ...] = (), tasks: bool = False) -> int:
    """List the environments.

    Args:
        folder: Folders of your own environments, beside the built-in ones.
        tasks: Print each task's text too.
    """
    environments = sorted(load_all(folder), key=lambda env: (_ORDER.index(env.difficulty), env.name))
    rows = [_row(env) for env in environments]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for env, row in zip(environments, rows, strict=True):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
        if tasks:
            print("\n" + "\n".join(f"    {line}".rstrip() for line in env.task.splitlines()) + "\n")
    return 0


def _row(env: Environment) -> tuple[str, ...]:
    return env.name, env.difficulty, env.kind, env.language, env.domain, env.title

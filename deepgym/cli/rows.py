"""deepgym rows"""

import json
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated

import tyro

from deepgym.cli.errors import UsageError
from deepgym.registry import load_environment


def rows(
    environment: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="ENVIRONMENT")],
    count: int = 64,
    output: Path | None = None,
    folder: tuple[Path, ...] = (),
) -> int:
    """Write a trainer's dataset: JSON lines whose `prompt` is the environment's task.

    Args:
        environment: Its name, or the path of its folder.
        count: Rows, all alike: an episode of training draws each of them once.
        output: A new file; default: stdout.
        folder: Folders of your own environments, beside the built-in ones.
    """
    if count < 1:
        raise UsageError(f"--count {count}: at least 1 row has to be written")
    env = load_environment(environment, folders=folder)
    fields = {"prompt": env.task, "datasource": env.name}
    row = json.dumps(fields, ensure_ascii=output is None) + "\n"  # stdout has the locale's encoding
    try:
        with nullcontext(sys.stdout) if output is None else output.open("x", encoding="utf-8") as file:
            for _ in range(count):
                file.write(row)
            file.flush()
    except OSError as error:
        raise UsageError(f"the rows cannot be written to {output or 'stdout'}: {error.strerror}") from error
    if output is not None:
        print(f"{count} rows of {env.name} written to {output}")
    return 0

"""One HTML page about one or several runs: curves over each other, time per phase, prompts, rollouts token by token.

    python3 -m openrlhf.cli.report runs/quickstart
    python3 -m openrlhf.cli.report runs/seed1 runs/seed2 --output both.html

Exit codes: 0 the page is written, 2 a folder is not a run's.
"""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro

from openrlhf.config.errors import ConfigError
from openrlhf.config.yaml_file import read_yaml
from openrlhf.track.errors import TrackError
from openrlhf.track.report.page import render
from openrlhf.track.report.run_data import Pieces, read_run, unique_names


@dataclass(frozen=True, slots=True)
class ReportCommand:
    """Write a report about runs."""

    runs: Annotated[list[Path], tyro.conf.Positional]
    """Run folders (--ckpt.output_dir of each)."""
    output: Path | None = None
    """The page. None: report.html in the first run's folder."""
    tokenizer: str | None = None
    """Hugging Face name or folder whose tokenizer gives tokens their text. None: the model each run trained."""
    max_samples: int = field(default=200)
    """Stored samples to show of each run."""


def main(argv: Sequence[str] | None = None) -> int:
    command = tyro.cli(ReportCommand, args=None if argv is None else list(argv), prog="openrlhf.cli.report")
    try:
        runs = [
            read_run(folder, name, _pieces(folder, command.tokenizer), command.max_samples)
            for folder, name in zip(command.runs, unique_names(command.runs), strict=True)
        ]
        output = command.output or command.runs[0] / "report.html"
        output.write_text(render(runs), encoding="utf-8")
    except (TrackError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    print(output)
    return 0


def _pieces(folder: Path, tokenizer: str | None) -> Pieces | None:
    """How this run's token ids become text; None, said on stderr, where its tokenizer cannot be loaded."""
    from openrlhf.models.errors import ModelError
    from openrlhf.models.tokenizer import load_tokenizer

    try:
        name = tokenizer or read_yaml(str(folder / "config.yaml")).actor.model_name_or_path
        loaded = load_tokenizer(name or str(folder))
    except (ConfigError, ModelError, OSError, ValueError) as error:
        print(f"warning: {folder}: tokens are shown by their ids, for there is no tokenizer ({error})", file=sys.stderr)
        return None
    return lambda token_ids: [str(loaded.decode([token_id])) for token_id in token_ids]


if __name__ == "__main__":
    sys.exit(main())

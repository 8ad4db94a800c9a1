"""One HTML page about one or several runs: curves over each other, time per phase, prompts, rollouts token by token.

    python3 -m openrlhf.cli.report runs/quickstart
    python3 -m openrlhf.cli.report runs/seed1 runs/seed2 --output both.html

Exit codes: 0 the page is written, 2 a folder is not a run's.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import tyro

from openrlhf.cli.outcome import EXIT_REFUSED, tell
from openrlhf.config.errors import ConfigError
from openrlhf.config.report import PROGRAM, ReportCommand
from openrlhf.config.yaml_file import read_yaml
from openrlhf.track.errors import TrackError
from openrlhf.track.report.page import render
from openrlhf.track.report.run_data import Pieces, check_is_run, read_run, unique_names


def main(argv: Sequence[str] | None = None) -> int:
    arguments = None if argv is None else list(argv)
    command = tyro.cli(ReportCommand, args=arguments, use_underscores=True, prog=PROGRAM)
    folders = [Path(run) for run in command.runs]
    if not folders:
        tell("error", ["name at least one run's folder"])
        return EXIT_REFUSED
    try:
        for folder in folders:
            check_is_run(folder)
        runs = [
            read_run(folder, name, _pieces(folder, command.tokenizer), command.max_samples)
            for folder, name in zip(folders, unique_names(folders), strict=True)
        ]
        output = Path(command.output) if command.output else folders[0] / "report.html"
        output.write_text(render(runs), encoding="utf-8")
    except (TrackError, OSError) as error:
        tell("error", [str(error)])
        return EXIT_REFUSED
    print(output)
    return 0


def _pieces(folder: Path, tokenizer: str | None) -> Pieces | None:
    """How this run's token ids become text; None, said on stderr, where its tokenizer cannot be loaded."""
    from openrlhf.models.errors import ModelError
    from openrlhf.models.tokenizer import load_tokenizer

    try:
        loaded = load_tokenizer(tokenizer or _model(folder))
    except (ConfigError, ModelError, OSError, ValueError) as error:
        tell("warning", [f"{folder}: tokens are shown by their ids, for there is no tokenizer ({error})"])
        return None
    return lambda token_ids: [str(loaded.decode([token_id])) for token_id in token_ids]


def _model(folder: Path) -> str:
    """The exported model where there is one, which needs no hub; else the model that was trained."""
    if (folder / "tokenizer.json").is_file():
        return str(folder)
    return read_yaml(str(folder / "config.yaml")).actor.model_name_or_path or str(folder)


if __name__ == "__main__":
    sys.exit(main())

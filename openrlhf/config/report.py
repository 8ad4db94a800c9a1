"""The command line of the report about finished runs."""

from typing import Annotated

import tyro

from openrlhf.config.base import Section

PROGRAM = "report"


class ReportCommand(Section):
    """Write one HTML page about one or several runs."""

    runs: Annotated[tuple[str, ...], tyro.conf.Positional]
    """Run folders (--ckpt.output_dir of each)."""
    output: str | None = None
    """The page. None: report.html in the first run's folder."""
    tokenizer: str | None = None
    """Hugging Face name or folder whose tokenizer gives tokens their text. None: the run's own folder,
    or where it has none, the model that was trained."""
    max_samples: int = 200
    """Stored samples to show of each run."""

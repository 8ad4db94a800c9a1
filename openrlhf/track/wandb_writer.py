"""Weights & Biases."""

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openrlhf.config.run import WandbConfig
from openrlhf.faults import first_line
from openrlhf.track.errors import TrackError


class WandbWriter:
    """One W&B run. W&B's own variables work: with WANDB_MODE=offline nothing leaves the machine."""

    def __init__(self, wandb_config: WandbConfig, settings: Mapping[str, Any], folder: Path) -> None:
        """`settings` is shown as the run's configuration; it must not hold the API key.

        Raises:
            TrackError: the package is missing, or W&B refuses the key or cannot be reached.
        """
        try:
            import wandb
        except ImportError as missing:
            raise TrackError(
                "--logger.wandb.key is given, but the package wandb is not installed: pip install 'openrlhf[wandb]'"
            ) from missing
        try:
            self._run = wandb.init(
                entity=wandb_config.org,
                project=wandb_config.project,
                group=wandb_config.group,
                name=time.strftime(wandb_config.run_name),
                config=dict(settings),
                dir=str(folder),
                # `wandb.login` would write the key to ~/.netrc, and the metadata hold the command line, it among it.
                settings=wandb.Settings(api_key=wandb_config.key, x_disable_meta=True),
            )
        except wandb.Error as refused:
            raise TrackError(
                f"--logger.wandb.key: W&B does not start: {first_line(refused)}; WANDB_MODE=offline keeps its files"
            ) from refused

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        self._run.log({name: value for name, value in metrics.items() if math.isfinite(value)}, step=step)

    def close(self) -> None:
        self._run.finish()

"""Everything a run writes down while it trains, behind one object.

    <output_dir>/metrics.jsonl      one object per step
    <output_dir>/rollouts/          a few samples of each step
    <output_dir>/reward_curve.png   drawn at the end

and, where the logger asks for them, TensorBoard events and a W&B run.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pydantic import BaseModel

from openrlhf.config.run import LoggerConfig
from openrlhf.faults import named
from openrlhf.track.console import ConsoleProgress, is_evaluation
from openrlhf.track.errors import TrackError
from openrlhf.track.metrics_file import MetricsFile
from openrlhf.track.reward_curve import draw_reward_curve
from openrlhf.track.rollout_store import RolloutStore, TrainedSamples
from openrlhf.track.tensorboard_writer import TensorBoardWriter
from openrlhf.track.wandb_writer import WandbWriter
from openrlhf.track.writer import MetricsWriter
from openrlhf.types import RolloutGroup

logger = logging.getLogger(__name__)
# The API key must not leave the process: W&B would show it to everyone who can see the run.
SECRETS: Any = {"logger": {"wandb": {"key"}}}


class RunTracker:
    """Writes the run folder. Use it as a context manager: what was logged is complete also after an error."""

    def __init__(self, output_dir: Path, logger: LoggerConfig, config: BaseModel, total_steps: int) -> None:
        """`config` is only shown to W&B. Raises TrackError if a destination cannot be opened."""
        self._folder = output_dir
        self._folder.mkdir(parents=True, exist_ok=True)
        self._every = logger.logging_steps
        self._metrics: MetricsFile | None = None  # opened by the first row: only then is it known whether to resume
        self._rollouts = RolloutStore(output_dir / "rollouts", logger.num_rollouts_stored)
        self._resume_after: int | None = None
        self._writers: list[MetricsWriter] = []
        if logger.tensorboard_dir is not None:
            self._writers.append(TensorBoardWriter(logger.tensorboard_dir))
        if logger.wandb.key is not None:
            settings = config.model_dump(mode="json", exclude=SECRETS)
            self._writers.append(WandbWriter(logger.wandb, settings, output_dir))
        self._console = ConsoleProgress(total_steps)
        self._writers.append(self._console)

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Write the metrics of one step; a second call for the same step (its evaluation) adds to it.

        metrics.jsonl gets every step, the other destinations every `logger.logging_steps`-th and every evaluation.

        Raises:
            TrackError: the disk refused.
        """
        with self._written():
            self._open_metrics().write(step, metrics)
        if step % self._every == 0 or is_evaluation(metrics):
            for writer in self._writers:
                writer.write(step, metrics)

    def resumed_evaluation(self, step: int) -> dict[str, float]:
        """What metrics.jsonl has of the evaluation of the step after which the run was resumed; empty for another step,
        or where that evaluation was not finished.

        Raises:
            TrackError: the disk refused.
        """
        if step != self._resume_after:
            return {}
        with self._written():
            rows = self._open_metrics().rows
        newest = rows[-1] if rows and rows[-1]["step"] == step else {}
        return {name: value for name, value in newest.items() if name.startswith("eval_")}

    def expect(self, total_steps: int) -> None:
        """The run will have so many steps: of one that is resumed it is known only when its state is loaded."""
        self._console.expect(total_steps)

    def say(self, line: str) -> None:
        """Show a line on the console."""
        self._console.say(line)

    def store_rollouts(self, step: int, groups: Sequence[RolloutGroup], trained: TrainedSamples) -> None:
        """Keep a few samples of the step, `logger.num_rollouts_stored` at most, with what training added to them."""
        with self._written():
            self._rollouts.write(step, groups, trained)

    @contextmanager
    def _written(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise TrackError(f"run folder {self._folder}: {error.strerror or error}") from error

    def _open_metrics(self) -> MetricsFile:
        if self._metrics is None:
            self._metrics = MetricsFile(self._folder / "metrics.jsonl", self._resume_after)
            self._rollouts.clear_after(self._resume_after or 0)
        return self._metrics

    def go_on_after(self, step: int) -> None:
        """Resume: rows of metrics.jsonl after this step, which are about to be written anew, are dropped."""
        if self._metrics is not None:
            raise RuntimeError("RunTracker: it must be known where to go on before the first step is logged")
        self._resume_after = step

    def close(self) -> None:
        """Draw the reward curve and close every destination. A second call does nothing.

        What fails is logged and keeps nothing else from being closed: each row was written when it was logged, and an
        error that ends the run must not be replaced.
        """
        parts: list[Callable[[], None]] = [writer.close for writer in self._writers]
        if self._metrics is not None:
            parts = [partial(self._draw_curve, self._metrics.rows), self._metrics.close, *parts]
        self._metrics, self._writers = None, []
        for part in parts:
            try:
                part()
            except Exception as error:  # a writer is a package of others, with errors of its own
                logger.error("run folder %s: closing it: %s", self._folder, named(error))

    def _draw_curve(self, rows: Sequence[Mapping[str, float]]) -> None:
        curve = self._folder / "reward_curve.png"
        if draw_reward_curve(rows, curve):
            self._console.say(f"reward curve: {curve}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

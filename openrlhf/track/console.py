"""What the terminal shows: one line per step, and under it, on a terminal, a live bar.

step  12/20  reward 0.984  length 13.2  510 tokens/s  14.1 s (generation 3.0, ppo_train 9.8, broadcast 0.3)
"""

from collections.abc import Mapping

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

SHORTEST_PHASE = 0.05  # seconds; shorter phases are left out of the line


def is_evaluation(metrics: Mapping[str, float]) -> bool:
    """Whether these are the numbers of an evaluation, not of a training step."""
    return all(name.startswith("eval") for name in metrics)


def describe_step(step: int, total: int, metrics: Mapping[str, float]) -> str:
    """The line of one training step; a metric that was not logged is left out."""
    parts = [f"step {step:>{len(str(total))}}/{total}"]
    for label, name, digits in (
        ("reward", "rollout/reward_mean", 3),
        ("length", "rollout/response_length_mean", 1),
        ("truncated", "rollout/truncated_rate", 2),
        ("kl", "train/kl", 4),
    ):
        if name in metrics:
            parts.append(f"{label} {metrics[name]:.{digits}f}")
    generation = metrics.get("timing/generation", 0.0)
    if generation > 0 and "rollout/tokens_generated" in metrics:
        parts.append(f"{metrics['rollout/tokens_generated'] / generation:.0f} tokens/s")
    return "  ".join(parts + _describe_seconds(metrics))


def _describe_seconds(metrics: Mapping[str, float]) -> list[str]:
    phases = {
        name.removeprefix("timing/"): seconds
        for name, seconds in metrics.items()
        if name.startswith("timing/") and name != "timing/step_total" and seconds >= SHORTEST_PHASE
    }
    total = metrics.get("timing/step_total", sum(phases.values()))
    if total <= 0:
        return []
    detail = ", ".join(f"{name} {seconds:.1f}" for name, seconds in phases.items())
    return [f"{total:.1f} s" + (f" ({detail})" if detail else "")]


def describe_evaluation(step: int, metrics: Mapping[str, float]) -> str:
    values = "  ".join(f"{name.removeprefix('eval_')} {value:.3f}" for name, value in metrics.items())
    return f"evaluation after step {step}  {values}"


class ConsoleProgress:
    """Prints the lines. On a terminal a bar with elapsed and remaining time stays below them while the run lasts."""

    def __init__(self, total_steps: int, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)
        self._total = total_steps
        self._bar: Progress | None = None
        if self._console.is_terminal:
            self._bar = Progress(
                SpinnerColumn(),
                TextColumn("training"),
                BarColumn(),
                MofNCompleteColumn(),
                TextColumn("{task.fields[reward]}"),
                TimeElapsedColumn(),
                TextColumn("left"),
                TimeRemainingColumn(),
                console=self._console,
            )
            self._task = self._bar.add_task("training", total=total_steps, reward="")
            self._bar.start()

    def write(self, step: int, metrics: Mapping[str, float]) -> None:
        if is_evaluation(metrics):
            self.say(describe_evaluation(step, metrics))
            return
        self.say(describe_step(step, self._total, metrics))
        if self._bar is not None:
            reward = metrics.get("rollout/reward_mean")
            self._bar.update(self._task, completed=step, reward="" if reward is None else f"reward {reward:.3f}")

    def expect(self, total_steps: int) -> None:
        """The run has another length than it was made with."""
        self._total = total_steps
        if self._bar is not None:
            self._bar.update(self._task, total=total_steps)

    def say(self, line: str) -> None:
        # soft_wrap: a log file gets one line per step, however narrow rich believes it to be.
        self._console.print(line, markup=False, soft_wrap=True)
        self._console.file.flush()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.stop()
